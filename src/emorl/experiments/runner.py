"""reproduce(): trains what an experiment needs and is missing, measures, draws, and writes the result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from emorl.errors import UserError, nearest
from emorl.experiments import EXPERIMENTS
from emorl.experiments.base import Experiment, Job
from emorl.experiments.drawn import take
from emorl.experiments.queue import train_missing
from emorl.experiments.results import Result, Row, check_result, merged, run_label, stale
from emorl.experiments.scales import ScaleName, Wanted
from emorl.runs.provenance import stamp
from emorl.runs.run import Run


def find(name: str) -> Experiment:
    """The experiment `name`; raises UserError if there is none."""
    if name not in EXPERIMENTS:
        raise UserError(f"There is no table or figure {name!r}{nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def labels_of(name: str, scale: ScaleName) -> list[str]:
    """The labels of the runs of an experiment, in the order of its table."""
    return list(dict.fromkeys(one.label for one in find(name).runs(scale)))


def chosen(wanted: Sequence[Wanted], only: str) -> list[Wanted]:
    """Returns those with `only` in their label; raises UserError if there are none."""
    found = [one for one in wanted if only.casefold() in one.label.casefold()]
    if not found:
        labels = "; ".join(dict.fromkeys(one.label for one in wanted)) or "none, nothing is trained for it"
        raise UserError(f"No row has {only!r} in its label. There are: {labels}.")
    return found


def reproduce(
    name: str,
    *,
    scale: ScaleName = "cpu",
    folder: Path,
    jobs: int = 1,
    only: str = "",
    files: Path | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    say: Callable[[str], None] = print,
) -> Result:
    """Writes NAME.json, and pictures if there is something to see, into `folder`/`scale`. Returns the result.

    `only` leaves rows whose label does not have it as they are in NAME.json, if they are there, and draws nothing.
    A measurement that is interrupted leaves NAME.partial.json, from which experiments that take long go on.
    """
    experiment = find(name)
    if experiment.measure is None:
        raise UserError(f"{name} is a record of the past that cannot be measured again.")
    path = folder / scale / f"{name}.json"
    check_result(path)
    wanted = experiment.runs(scale)
    wanted = chosen(wanted, only) if only else wanted
    sources = {one: (one.weights if experiment.from_weights else None) or one.place(folder) for one in wanted}
    to_train = {
        one.place(folder): one.on(device) for one, source in sources.items() if isinstance(source, Path)
    }
    train_missing(to_train, jobs=jobs, say=say)
    trained = [Run.open(source, label=one.label) for one, source in sources.items()]
    if device != "cpu":
        for run in trained:
            run.model.to(device)
    say(f"Measuring {name}: {experiment.title}.")
    rows = measured(experiment, Job(trained, scale, files, path.parent, say=say), path, name)
    result = Result(name, rows, stamp(), scale)
    if only and path.exists():
        result = replace(result, rows=merged(rows, Result.read(path), labels_of(name, scale)))
    result.write(path)
    if experiment.draw is not None and not only:
        with tempfile.TemporaryDirectory() as drawn:
            experiment.draw(trained, rows, Path(drawn) / f"{name}.png")
            take(Path(drawn).iterdir(), path.parent, Result.read(path))
    return result


def measured(experiment: Experiment, job: Job, path: Path, name: str) -> list[Row]:
    """Returns all rows; while they are being measured, finished ones are kept in a .partial.json beside `path`."""
    assert experiment.measure is not None
    partial = path.with_suffix(".partial.json")
    rows: list[Row] = []
    if partial.exists():
        job = replace(job, done=Result.read(partial).rows)
    for row in experiment.measure(job):
        rows.append(row)
        Result(name, rows, stamp(), job.scale).write(partial)
    partial.unlink(missing_ok=True)
    return rows


def state(name: str, result: Result | None) -> str:
    """What a list says of an experiment: whether it was run, and whether its result is of today's settings."""
    if result is None:
        return "not run"
    wanted = {one.label: one.config for one in find(name).runs("cpu")}
    old = stale(result, wanted)
    known = {run_label(row.label, wanted) for row in result.rows}
    missing = [label for label in wanted if label not in known]
    notes = [f"stale: {', '.join(old)}"] if old else []
    notes += [f"{len(missing)} of {len(wanted)} rows not run"] if missing else []
    if not all(result.has_provenance(row) for row in result.rows):
        notes.append("recorded before provenance")
    return "; ".join(notes) or "current"
