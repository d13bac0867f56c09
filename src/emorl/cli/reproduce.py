"""emorl reproduce"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tyro

from emorl.cli.options import Device, check_options, choose_device
from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS
from emorl.experiments.documents import RESULTS, illustrate, publish, read_results, render
from emorl.experiments.runner import find, labels_of, reproduce, state
from emorl.experiments.scales import ScaleName
from emorl.experiments.tables import results_table
from emorl.training.console import say


def reproduce_command(
    name: tyro.conf.Positional[str] = "list",
    scale: ScaleName = "cpu",
    out: Path = Path("runs/reproduce"),
    jobs: int = 1,
    only: str = "",
    files: Path | None = None,
    device: Device = "auto",
    publish_here: bool = False,
    docs: bool = False,
) -> None:
    """Make a table or figure, of the paper or of ours: train what is missing, measure, compare with what is published.

    Without a name: lists them, and whether the results here are of today's settings. Can be interrupted and run again:
    finished trainings are kept, others go on.

    Args:
        name: table-1, figure-2, comparison, ... or all: every one of the paper.
        scale: cpu is a scaled-down protocol for two cores; paper is the full one, for GPUs; tiny takes seconds and
            only shows that it works.
        out: Folder of the trainings; results go to OUT/SCALE/NAME.json and .png.
        jobs: Trainings side by side; on a CPU each of several takes one core.
        only: Train and measure just the rows with this in their label ("slot attention", "L=0"); others stay as they
            are in OUT/SCALE/NAME.json, and the picture as it is.
        files: Folder of published files, for `clevr`, `blender` and `datasets`, which compare with them.
        device: auto takes a GPU if there is one.
        publish_here: Also take the result into results/ of the checkout in this folder, and bring its documents up to
            date.
        docs: Only bring README and docs of the checkout in this folder up to date with its results/.
    """
    check_options(jobs=jobs)
    where: Any = choose_device(device).type
    if publish_here and scale != "cpu":
        raise UserError(f"--publish-here is for results of --scale cpu, not of {scale}.")
    if only and name in ("all", "list"):
        raise UserError(
            "--only chooses rows of one table or figure; name it: emorl reproduce table-1 --only ..."
        )
    here = Path()
    if publish_here:
        read_results(here)  # is this a checkout?
    if docs:
        illustrate(here)
        changed = render(here)
        say(
            f"Brought up to date: {', '.join(map(str, changed))}." if changed else "Everything is up to date."
        )
        return
    if name == "list":
        print_list(here)
        return
    papers = [known for known, experiment in EXPERIMENTS.items() if experiment.sections is None]
    for chosen in papers if name == "all" else [name]:
        experiment = find(chosen)
        result = reproduce(
            chosen, scale=scale, folder=out, jobs=jobs, only=only, files=files, device=where, say=say
        )
        print(f"\n{chosen}: {experiment.title}\nScale {scale}: {experiment.how(scale)}.")
        print(f"Paper: {experiment.paper}\n" if experiment.paper else "")
        if experiment.scores:
            print(f"{results_table(experiment, result, labels_of(chosen, scale))}\n")
        else:
            for row in result.rows:
                print(f"{row.label}: {dict(row.values)}")
        say(f"Wrote {out / scale / chosen}.json")
        if publish_here:
            publish(result, out / scale, here)


def print_list(here: Path) -> None:
    """Every experiment, and the state of its result where this is a checkout."""
    results = read_results(here) if (here / RESULTS).is_dir() else None
    for name, experiment in EXPERIMENTS.items():
        note = "" if results is None else f"  [{state(name, results.get(name))}]"
        print(f"{name:<12} {experiment.title}{note}")
