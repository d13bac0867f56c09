"""Table 1: how well every system takes scenes apart."""

from __future__ import annotations

from collections.abc import Iterator

from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, means, row_of, titled
from emorl.experiments.results import Row
from emorl.experiments.scales import DATASETS, beside_ours, of_presets, paper_steps, systems
from emorl.report.paper import PUBLISHED_ARI

SCORES = ("ari", "ari_with_background", "miou", "mse", "kl")


def measure(job: Job) -> Iterator[Row]:
    """Scores on the held-out scenes with the configured refinement, and ARI without any where that can be had."""
    for run in job.trained:
        scenes = run.scenes("test")
        scores = evaluate(run.model, scenes)
        values = means(scores, *SCORES, "kl_hierarchical")
        if run.model.least_steps == 0:  # it has an answer before any refinement
            values["ari_without_refinement"] = evaluate(run.model, scenes, num_steps=0).mean("ari")
        yield row_of(run, values, scenes="test")


EXPERIMENT = Experiment(
    "Decomposition of the systems",
    measure,
    ("ari", "ari_without_refinement", *SCORES[1:]),
    paper="EfficientMORL is on a par with Slot Attention, IODINE and MONet.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, DATASETS, long="too"),
    metrics={"ari_without_refinement": titled("ari", title=f"{METRICS['ari'].title} at I = 0")},
    published=beside_ours({key: {"ari": value} for key, value in PUBLISHED_ARI.items()}),
    published_steps=paper_steps(PUBLISHED_ARI),
)
