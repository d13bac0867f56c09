"""reproduce(): trains what an experiment needs and is missing, measures, draws, and writes it down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emorl.config import read_json
from emorl.errors import UserError
from emorl.files import make_directory, write_json
from emorl.reproduce.experiments import Experiment, find, system_on
from emorl.reproduce.jobs import train_missing
from emorl.reproduce.trained import Trained, markdown, merged, summary
from emorl.reproduce.variants import SCALES, ScaleName, canonical, variant
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS


def runs_of(experiment: Experiment, scale: ScaleName, folder: Path) -> list[Trained]:
    """The trainings an experiment needs, and where they are or will be."""
    seeds = SCALES[scale].seeds_in_full if experiment.presets else SCALES[scale].seeds
    runs = systems_of if experiment.presets else variants_of
    return [
        Trained(label, replace(run, train=replace(run.train, seed=seed)), place / f"seed-{seed}")
        for label, run, place in runs(experiment, scale, folder / scale)
        for seed in seeds
    ]


def systems_of(experiment: Experiment, scale: ScaleName, folder: Path) -> list[tuple[str, RunConfig, Path]]:
    """Label, run and folder of each system's preset for each data set, or for Tetrominoes if there is none."""
    suffix = SCALES[scale].suffix
    found: dict[str, RunConfig] = {}
    for data in experiment.presets:
        named = [f"{system}/{data}{suffix}" for system in experiment.systems]
        if not any(name in PRESETS for name in named):
            named = [f"{system}/tetrominoes{suffix}" for system in experiment.systems]
        found |= {name: PRESETS[name] for name in named if name in PRESETS}
    return [
        (system_on(name.split("/")[0], run.data.name), run, folder / "presets" / name.replace("/", "--"))
        for name, run in found.items()
    ]


def variants_of(experiment: Experiment, scale: ScaleName, folder: Path) -> list[tuple[str, RunConfig, Path]]:
    """The same for the variants of one preset."""
    data = experiment.dataset
    found = []
    for label, name in experiment.variants.items():
        same = canonical(name, scale=scale, dataset=data)
        place = folder / SCALES[scale].presets[data].split("/")[1] / same.replace(" ", "-")
        found.append((label, variant(name, scale=scale, dataset=data, seed=0), place))
    return found


def protocol(experiment: Experiment, scale: ScaleName) -> str:
    if not experiment.presets and not experiment.variants:
        return "every model's CLEVR6 configuration, untrained, in batches of 4"
    if experiment.presets and scale == "cpu":
        return "the -fast presets there are, in full, on one core, one seed"
    return SCALES[scale].description


def chosen(trained: Sequence[Trained], only: str) -> list[Trained]:
    """Those with `only` in their label."""
    found = [one for one in trained if only.casefold() in one.label.casefold()]
    if not found:
        labels = "; ".join(dict.fromkeys(one.label for one in trained)) or "none, nothing is trained for it"
        raise UserError(f"No row has {only!r} in its label. There are: {labels}.")
    return found


def reproduce(
    name: str,
    *,
    scale: ScaleName = "cpu",
    folder: Path,
    jobs: int = 1,
    only: str = "",
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Writes NAME.json, and NAME.png if there is something to see, into `folder`/`scale`. Returns the results.

    `only` leaves rows whose label does not have it as they are in NAME.json, if they are, and draws nothing.
    """
    experiment = find(name)
    path = folder / scale / f"{name}.json"
    trained = runs_of(experiment, scale, folder)
    order = [one.label for one in trained]
    if only:
        trained = chosen(trained, only)
    train_missing({one.directory: one.run for one in trained}, jobs=jobs, say=say)
    say(f"Measuring {name}: {experiment.title}.")
    rows = experiment.measure(trained)
    if only and path.exists():
        rows = merged(rows, read_json(path)["rows"], order)
    entries = summary(rows, experiment.scores)
    results = {
        "name": name,
        "title": experiment.title,
        "scale": scale,
        "protocol": protocol(experiment, scale),
        "command": f"emorl reproduce {name} --scale {scale}",
        "paper": experiment.paper,
        "summary": entries,
        "published": {
            label: {score: value._asdict() for score, value in values.items()}
            for label, values in experiment.published.items()
        },
        "table": markdown(entries, experiment.scores, experiment.published),
        "rows": rows,
    }
    make_directory(folder / scale)
    write_json(path, results)
    if experiment.draw is not None and not only:
        experiment.draw(trained, rows, path.with_suffix(".png"))
    return results
