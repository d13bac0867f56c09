"""Levers of learning, one at a time: each is one change to a short run of the preset, with two seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, scored
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import Changes, of_variants, variants
from emorl.experiments.tables import summary, table
from emorl.schedules import Schedule

LEVERS: Mapping[str, Changes] = {
    "baseline": {},
    "Adam instead of Muon": {"train.optimizer": "adam"},
    "I = 3 for 500 steps, then 1": {"train.num_steps": Schedule.parse("3 500:1")},
    "I = 3, fewer when late updates are small": {
        "train.num_steps": Schedule.parse(3),
        "train.drop_below": 0.8,
    },
}
SCORES = ("ari", "mse", "kl", "cpu_minutes")
WRITTEN = {**METRICS, "mse": replace(METRICS["mse"], digits=0), "kl": replace(METRICS["kl"], digits=0),
           "cpu_minutes": replace(METRICS["cpu_minutes"], digits=1)}  # fmt: skip


def measure(job: Job) -> Iterator[Row]:
    """Yields validation scores of each run, its processor time, and I at the end of training."""
    for run in job.trained:
        row = scored(run, "validation", "ari", "mse", "kl")
        more = {"cpu_minutes": run.cpu_minutes, "final_I": run.metrics[-1]["num_steps"]}
        yield replace(row, values={**row.values, **more})


def sections(result: Result) -> dict[str, str]:
    """Means over seeds."""
    entries = {entry["label"]: entry for entry in summary(result.rows, SCORES)}
    lines = [
        [label, *(WRITTEN[score].text(*entry[score]) for score in SCORES)] for label, entry in entries.items()
    ]
    return {
        "docs/learning.md#levers": table(["change", *(WRITTEN[score].heading for score in SCORES)], lines)
    }


EXPERIMENT = Experiment(
    "Levers of learning, one at a time",
    measure,
    SCORES,
    protocol=of_variants,
    runs=lambda scale: variants(LEVERS, scale),
    sections=sections,
)
