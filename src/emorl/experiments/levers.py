"""Levers of learning, one at a time: each is one change to a short run of the fast preset, with two seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, logged, scored
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import Changes, of_variants, variants
from emorl.experiments.tables import NOT_RUN, summary, table

LEVERS: Mapping[str, Changes] = {
    "baseline": {},
    "Adam instead of Muon": {"train.optimizer": "adam"},
    "I = 3 for 500 steps, then 1": {"train.curriculum": ((0, 3), (500, 1))},
    "I = 3, fewer when late updates are small": {"train.curriculum": ((0, 3),), "train.drop_below": 0.8},
    "learning rate 2e-3": {"train.learning_rate": 2e-3},
    "learning rate 5e-4": {"train.learning_rate": 5e-4},
    "positions as ramps only": {"model.position": "ramps"},
    "4 frequencies instead of 8": {"model.frequencies": 4},
    "KL weight stays at 0.007": {"model.kl_start": None, "model.kl_weight": 0.007},
    "KL weight 1 from the start": {"model.kl_start": None},
    "decoder of 48 channels": {"model.decoder_channels": 48},
}
SCORES = ("ari", "mse", "kl", "cpu_minutes")
WRITTEN = {**METRICS, "mse": replace(METRICS["mse"], digits=0), "kl": replace(METRICS["kl"], digits=0),
           "cpu_minutes": replace(METRICS["cpu_minutes"], digits=1)}  # fmt: skip


def measure(job: Job) -> Iterator[Row]:
    """Scores on validation scenes, and what the training took."""
    for run in job.trained:
        row = scored(run, "validation", "ari", "mse", "kl")
        more = {"cpu_minutes": run.cpu_minutes, "final_I": logged(run)[-1]["num_steps"]}
        yield replace(row, values={**row.values, **more})


def sections(result: Result) -> dict[str, str]:
    """Means over seeds; what was not run is named in one row."""
    entries = {entry["label"]: entry for entry in summary(result.rows, SCORES)}
    lines = [
        [label, *(WRITTEN[score].text(*entry[score]) for score in SCORES)] for label, entry in entries.items()
    ]
    lines += [[label, NOT_RUN, "", "", ""] for label in LEVERS if label not in entries]
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
