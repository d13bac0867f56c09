"""emorl reproduce"""

from __future__ import annotations

from pathlib import Path

import tyro

from emorl.cli.console import say
from emorl.errors import UserError
from emorl.reproduce.experiments import EXPERIMENTS
from emorl.reproduce.run import reproduce
from emorl.reproduce.variants import ScaleName


def reproduce_command(
    name: tyro.conf.Positional[str] = "list",
    scale: ScaleName = "cpu",
    out: Path = Path("runs/reproduce"),
    jobs: int = 1,
    only: str = "",
) -> None:
    """Make a table or figure of the paper: train what is missing, measure, and put the published values beside ours.

    Without a name: lists them. Can be interrupted and run again: finished trainings are kept, others go on.

    Args:
        name: table-1, figure-2, ... or all.
        scale: cpu is a scaled-down protocol for two cores; paper is the full one, for GPUs.
        out: Folder of the trainings; results go to OUT/SCALE/NAME.json and .png.
        jobs: Trainings side by side; on a CPU each of several takes one core.
        only: Train and measure just the rows with this in their label ("slot attention", "L=0"); others stay as they
            are in OUT/SCALE/NAME.json, and the picture as it is.
    """
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {jobs}.")
    if only and name in ("all", "list"):
        raise UserError(
            "--only chooses rows of one table or figure; name it: emorl reproduce table-1 --only ..."
        )
    if name == "list":
        for known, experiment in EXPERIMENTS.items():
            print(f"{known:<10} {experiment.title}")
        return
    for chosen in EXPERIMENTS if name == "all" else [name]:
        results = reproduce(chosen, scale=scale, folder=out, jobs=jobs, only=only, say=say)
        print(f"\n{chosen}: {results['title']}\nScale {scale}: {results['protocol']}.")
        print(f"Paper: {results['paper']}\n\n{results['table']}\n")
        say(f"Wrote {out / scale / chosen}.json")
