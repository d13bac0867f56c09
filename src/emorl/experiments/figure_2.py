"""Figure 2: the loss with I = 0, 1 and 3 refinements in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job, means, row_of, series
from emorl.experiments.results import Row
from emorl.experiments.scales import of_variants, refinements, variants
from emorl.plots.files import save_chart
from emorl.plots.lines import Points, seed_chart, smoothed
from emorl.runs.run import Run


def grouped(trained: Sequence[Run], *names: str, smooth: bool = True) -> dict[str, list[Points]]:
    """The curves of each label's seeds."""
    curves: dict[str, list[Points]] = {}
    for run in trained:
        points = series(run, *names)
        if points:
            curves.setdefault(run.label, []).append(smoothed(points) if smooth else points)
    return curves


def measure(job: Job) -> Iterator[Row]:
    """The negative ELBO of the last step, over the last twentieth of training, and scores on validation scenes.

    Eq. 8 sums I + 1 losses; that of the last step can be compared between different I.
    """
    for run in job.trained:
        elbo = [value for _, value in series(run, "nll", "kl")]
        late = elbo[-max(1, len(elbo) // 20) :]
        scores = evaluate(run.model, run.scenes("validation"))
        values = {"negative_elbo": sum(late) / len(late), **means(scores, "ari", "mse")}
        yield row_of(run, values, scenes="validation")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws negative ELBO, NLL and validation ARI over training, a line for each I."""
    panels = {
        "negative ELBO of the last step": grouped(trained, "nll", "kl"),
        "NLL of the last step": grouped(trained, "nll"),
        "ARI on validation scenes": grouped(trained, "validation_ari", smooth=False),
    }
    save_chart(seed_chart(panels), path)


EXPERIMENT = Experiment(
    "Loss with I = 0, 1 and 3 refinements in training",
    measure,
    ("negative_elbo", "ari", "mse"),
    paper="Without refinement the loss gets stuck in poor minima; one step avoids them.",
    protocol=of_variants,
    runs=lambda scale: variants({f"I={I}": refinements(I) for I in (0, 1, 3)}, scale),
    draw=draw,
    metrics={"negative_elbo": Metric("-ELBO", "of the last step", 0, direction="down")},
)
