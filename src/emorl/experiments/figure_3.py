"""Figure 3: the KL, and the norms of the refinement updates, over training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job, row_of, series
from emorl.experiments.results import Row
from emorl.experiments.scales import of_variants, refinements, variants
from emorl.plots.files import save_chart
from emorl.plots.lines import seed_chart, smoothed
from emorl.runs.run import Run

UPDATES = (1, 2, 3)


def measure(job: Job) -> Iterator[Row]:
    """Yields the largest and the last KL, and each update's last norm as a share of its largest after 10 % of steps."""
    for run in job.trained:
        kl = [value for _, value in smoothed(series(run, "kl"))]
        values = {"kl_peak": max(kl), "kl_end": kl[-1]}
        for i in UPDATES:
            norms = [value for _, value in smoothed(series(run, f"update_{i}"))][len(kl) // 10 :]
            values[f"update_{i}_left"] = norms[-1] / max(norms)
        yield row_of(run, values, scenes="training")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws the norms of the updates and the KL over training."""
    updates = {f"i = {i}": [smoothed(series(run, f"update_{i}")) for run in trained] for i in UPDATES}
    panels = {
        "L2 norm of the refinement updates": updates,
        "KL of the refined posterior (nats)": {
            "refined": [smoothed(series(run, "kl")) for run in trained],
            "all layers of stage 1": [smoothed(series(run, "kl_hierarchical")) for run in trained],
        },
    }
    save_chart(seed_chart(panels), path)


EXPERIMENT = Experiment(
    "KL and norms of the refinement updates over training",
    measure,
    ("kl_peak", "kl_end", *(f"update_{i}_left" for i in UPDATES)),
    paper="When the KL converges, updates after the first become small.",
    protocol=of_variants,
    runs=lambda scale: variants({"I=3": refinements(3)}, scale),
    draw=draw,
    metrics={
        "kl_peak": Metric("KL at its height", "", 0),
        "kl_end": Metric("KL at the end", "", 0),
        **{f"update_{i}_left": Metric(f"update {i}, end / height", "", 2) for i in UPDATES},
    },
)
