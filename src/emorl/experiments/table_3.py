"""Table 3: disentanglement, completeness and informativeness of the slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emorl.evaluation.dci import evaluate_dci
from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, row_of
from emorl.experiments.results import Row
from emorl.experiments.scales import beside_ours, of_presets, paper_steps, systems
from emorl.report.paper import PUBLISHED_DCI

SCORES = ("disentanglement", "completeness", "informativeness_published", "accuracy", "r2")


def measure(job: Job) -> Iterator[Row]:
    """DCI by the paper's slow trees, and informativeness as it defines it beside accuracy and R2."""
    for run in job.trained:
        found = evaluate_dci(run.model, run.scenes("test"), fast=False)
        yield row_of(run, {f"dci_{name}": getattr(found, name) for name in SCORES}, scenes="test")


EXPERIMENT = Experiment(
    "Disentanglement (DCI)",
    measure,
    tuple(f"dci_{name}" for name in SCORES),
    paper="EfficientMORL disentangles better than Slot Attention, on CLEVR6.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(
        scale, ("clevr6",), long="instead", kinds=("efficient-morl", "slot-attention", "iodine")
    ),
    metrics={f"dci_{name}": replace(METRICS[f"dci_{name}"], digits=3) for name in SCORES},
    published=beside_ours(PUBLISHED_DCI),
    published_steps=paper_steps(PUBLISHED_DCI),
)
