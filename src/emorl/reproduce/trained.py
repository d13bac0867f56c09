"""What an experiment has to work with: runs, each with a label in the paper's table, and their results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from emorl.data import SceneDataset, Split, open_dataset
from emorl.models.base import Model
from emorl.report.published import Published
from emorl.runs.checkpoint import load_run
from emorl.runs.config import RunConfig
from emorl.runs.directory import read_metrics

Row = dict[str, Any]  # "label", "seed", and a number for each score


@dataclass(frozen=True)
class Trained:
    """One finished training."""

    label: str
    run: RunConfig
    directory: Path

    @property
    def seed(self) -> int:
        seed: int = self.run.train.seed
        return seed

    @cached_property
    def model(self) -> Model:
        return load_run(self.directory)[0]

    @cached_property
    def metrics(self) -> list[dict[str, float]]:
        return read_metrics(self.directory)

    def scenes(self, split: Split) -> SceneDataset:
        return open_dataset(self.run.data, split)

    def row(self, **scores: float) -> Row:
        return {"label": self.label, "seed": self.seed, **scores}


def merged(rows: Sequence[Row], earlier: Sequence[Row], labels: Sequence[str]) -> list[Row]:
    """`rows`, and what `earlier` has of runs that are not among them, in the order of the runs' `labels`."""

    def run_of(row: Row) -> str:
        return next((label for label in labels if row["label"].startswith(label)), "")

    measured = {"", *map(run_of, rows)}
    kept = [row for row in earlier if run_of(row) not in measured]
    return sorted([*rows, *kept], key=lambda row: labels.index(run_of(row)))


def summary(rows: Sequence[Row], scores: Sequence[str]) -> list[Row]:
    """One row per label, in order: mean, standard deviation and number of seeds of each score it has."""
    result = []
    for label in dict.fromkeys(row["label"] for row in rows):
        mine = [row for row in rows if row["label"] == label]
        entry: Row = {"label": label, "seeds": len(mine)}
        for score in scores:
            values = [row[score] for row in mine if score in row]
            if values:
                sd = statistics.stdev(values) if len(values) > 1 else 0.0
                entry[score] = {"mean": statistics.mean(values), "sd": sd}
        result.append(entry)
    return result


FORMATS: dict[str, tuple[float, int, str]] = {  # score -> factor, decimals, heading; three decimals otherwise
    "mse": (1e4, 1, "MSE (1e-4)"),
    "kl_refined": (1, 0, "KL refined"),
    "kl_hierarchical": (1, 0, "KL, all layers"),
    "kl_peak": (1, 0, "KL at its height"),
    "kl_end": (1, 0, "KL at the end"),
    **{f"update_{i}_left": (1.0, 2, f"update {i}, end / height") for i in (1, 2, 3)},
    "negative_elbo": (1, 0, "-ELBO"),
    "active": (1, 1, "active dimensions"),
    "dimensions": (1, 0, "of"),
    "edits": (1, 0, "edits"),
    "parameters": (1, 0, "parameters"),
    "forward_ms": (1, 0, "forward, ms per image"),
    "training_ms": (1, 0, "forward + backward, ms"),
    "forward_mib": (1, 0, "forward, MiB per image"),
    "training_mib": (1, 0, "forward + backward, MiB"),
}


def heading(score: str) -> str:
    return FORMATS[score][2] if score in FORMATS else score.replace("_", " ").replace("ari", "ARI")


def written(score: str, mean: float, sd: float | None) -> str:
    factor, decimals, _ = FORMATS.get(score, (1, 3, ""))
    return f"{factor * mean:.{decimals}f}" + ("" if sd is None else f" ± {factor * sd:.{decimals}f}")


def markdown(
    entries: Sequence[Row], scores: Sequence[str], published: Mapping[str, Mapping[str, Published]]
) -> str:
    """The summary as a table, the paper's value beside ours where there is one; rows of the paper's alone come last."""
    theirs = {score for values in published.values() for score in values}
    columns = [score for score in scores if any(score in entry for entry in entries)]
    head = ["", "seeds"]
    for score in columns:
        head += [heading(score), *(["paper"] if score in theirs else [])]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    alone: list[Row] = [{"label": label, "seeds": ""} for label in published]
    known = {entry["label"] for entry in entries}
    for entry in [*entries, *(row for row in alone if row["label"] not in known)]:
        cells = [entry["label"], str(entry["seeds"])]
        for score in columns:
            ours = entry.get(score)
            sd = None if entry["seeds"] == 1 or ours is None else ours["sd"]
            cells.append("" if ours is None else written(score, ours["mean"], sd))
            if score in theirs:
                value = published.get(entry["label"], {}).get(score)
                cells.append("" if value is None else written(score, value.mean, value.sd))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
