"""Results as Markdown tables: means over seeds, with the paper's values beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from emorl.experiments.base import Experiment
from emorl.experiments.results import Result, Row, run_label

NOT_RUN = "not run yet"
Thing = TypeVar("Thing")
Cells = Mapping[str, Callable[[Row], str]]  # columns of a table of rows: heading -> text of a row's cell
Entry = dict[str, Any]  # "label", "seeds", "steps", and (mean, sd) for each score


def summary(rows: Sequence[Row], scores: Sequence[str]) -> list[Entry]:
    """One entry per label, in order: number of seeds, steps, and (mean, standard deviation) of each score it has."""
    found = []
    for label in dict.fromkeys(row.label for row in rows):
        mine = [row for row in rows if row.label == label]
        entry: Entry = {"label": label, "seeds": len(mine), "steps": mine[0].steps}
        for score in scores:
            values = [row.values[score] for row in mine if score in row.values]
            if values:
                entry[score] = mean_and_sd(values)
        found.append(entry)
    return found


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and the sample standard deviation, which is 0 for a single value."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def mean_by_value(points: Sequence[Mapping[str, float]], names: Sequence[str]) -> list[dict[str, float]]:
    """Means over seeds of the scores `names` for each "value", and half the distance between the extremes as error."""
    rows = []
    for value in sorted({point["value"] for point in points}):
        mine = [point for point in points if point["value"] == value]
        row: dict[str, float] = {"value": value}
        for name in (name for name in names if all(name in point for point in mine)):
            numbers = [point[name] for point in mine]
            row[name] = sum(numbers) / len(numbers)
            row[f"{name}_error"] = (max(numbers) - min(numbers)) / 2
        rows.append(row)
    return rows


def count(number: int | None) -> str:
    """Returns a whole number with spaces between thousands, or an empty text for None."""
    return "" if number is None else f"{number:,}".replace(",", " ")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def columns(things: Iterable[Thing], cells: Mapping[str, Callable[[Thing], str]]) -> str:
    """A Markdown table with a line for each of `things`; `cells` are the columns: heading -> text of a thing's cell."""
    return table(list(cells), [[text(thing) for text in cells.values()] for thing in things])


def results_table(experiment: Experiment, result: Result, labels: Sequence[str] = ()) -> str:
    """The summary of a result.

    Rows of `labels` that have no value yet say so, and rows of the paper's alone come last. Where the paper's value
    stands beside ours, the table has the number of steps behind both.
    """
    entries = {entry["label"]: entry for entry in summary(result.rows, experiment.scores)}
    theirs = {score for values in experiment.published.values() for score in values}
    columns = [score for score in experiment.scores if any(score in entry for entry in entries.values())]
    has_steps = any(entry["steps"] is not None for entry in entries.values())
    first = ["seeds", "steps"] if has_steps else []  # rows without a training have neither
    head = ["", *first]
    for score in columns:
        title = experiment.metric(score).heading
        head += [title, *([f"paper: {title}"] if score in theirs else [])]
    head += ["paper: steps"] if theirs else []
    measured = {run_label(label, labels) for label in entries}
    known = [*entries, *(label for label in labels if label not in measured)]
    # Rows of runs that the experiment no longer has come last.
    order = {label: place for place, label in enumerate(labels)}
    known = sorted(known, key=lambda label: order.get(run_label(label, labels) or "", len(order)))
    rows = []
    for label in [*known, *(label for label in experiment.published if label not in known)]:
        entry = entries.get(label, {"label": label, "seeds": 0, "steps": None})
        cells = [label, *([str(entry["seeds"] or ""), count(entry["steps"])] if has_steps else [])]
        for score in columns:
            missing = NOT_RUN if label in labels else "not run"
            cells.append(own_cell(experiment, entry, score, missing if score == columns[0] else ""))
            if score in theirs:
                cells.append(paper_cell(experiment, label, score))
        cells += [count(experiment.published_steps.get(label))] if theirs else []
        rows.append(cells)
    return table(head, rows)


def own_cell(experiment: Experiment, entry: Entry, score: str, missing: str) -> str:
    """A cell: mean and standard deviation, or `missing` if the row was not measured."""
    if not entry["seeds"]:
        return missing
    if score not in entry:
        return ""
    mean, sd = entry[score]
    return experiment.metric(score).text(mean, sd if entry["seeds"] > 1 else None)


def paper_cell(experiment: Experiment, label: str, score: str) -> str:
    """Returns the paper's value as the text of a cell, empty if it has none."""
    value = experiment.published.get(label, {}).get(score)
    return "" if value is None else experiment.metric(score).text(value.mean, value.sd)


def provenance(result: Result) -> str:
    """Where the rows come from, in a sentence."""
    stamps: list[Mapping[str, Any]] = []
    for row in result.rows:
        if result.stamp_of(row) not in stamps:
            stamps.append(result.stamp_of(row))
    known = [stamp for stamp in stamps if stamp.get("commit")]
    commits = dict.fromkeys(str(stamp["commit"])[:10] for stamp in known)
    machines = dict.fromkeys(str(stamp["cpu"]) for stamp in known if stamp.get("cpu"))
    parts = []
    if known:
        where = f" on {', '.join(machines)}" if machines else ""
        parts.append(f"Measured with commit {', '.join(commits)}{where}.")
    if len(known) < len(stamps):
        parts.append("Some rows were recorded" if known else "Recorded")
        parts[-1] += " before provenance: commit unknown."
    if result.outdated:
        parts.append(f"Not of today's settings: {result.outdated}")
    return " ".join(parts)
