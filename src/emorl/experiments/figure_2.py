"""Figure 2: the loss with I = 0, 1 and 3 refinements in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job, logged, means, row_of
from emorl.experiments.results import Row
from emorl.experiments.scales import Changes, of_variants, variants
from emorl.plots.files import save_chart
from emorl.plots.lines import Points, seed_chart, smoothed
from emorl.runs.run import Run
from emorl.schedules import Schedule


def refinements(I: int) -> Changes:
    """Returns the changes that make a training use I refinements throughout."""
    return {"model.num_steps": I, "train.num_steps": Schedule.parse(I)}


def series(run: Run, *names: str) -> Points:
    """The sum of the logged values `names` against the step."""
    return [
        (line["step"] + 1, sum(line[name] for name in names))
        for line in logged(run)
        if all(line.get(name) is not None for name in names)
    ]


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
