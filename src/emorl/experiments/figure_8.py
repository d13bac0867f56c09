"""Figure 8: how many stochastic layers stage 1 has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from emorl.experiments.base import Experiment, scoring
from emorl.experiments.results import Row
from emorl.experiments.scales import Changes, of_variants, refinements, variants
from emorl.experiments.tables import mean_by_value
from emorl.plots.files import save_chart
from emorl.plots.lines import score_chart
from emorl.runs.run import Run

SCORES = ("ari", "mse", "kl_hierarchical", "kl")
# Without layers there is nothing but refinement, so it needs all three steps.
ROWS: Mapping[str, Changes] = {
    "L=0": {"model.inference.num_layers": 0, **refinements(3)},
    **{f"L={L}": {"model.inference.num_layers": L} for L in (1, 2, 3, 4)},
}


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws each score against the number of stochastic layers, averaged over seeds."""
    by_seed = [
        {"value": run.config.model.inference.num_layers, **row.values}
        for run, row in zip(trained, rows, strict=True)
    ]
    save_chart(score_chart({"": mean_by_value(by_seed, SCORES)}, label="L", names=SCORES), path)


EXPERIMENT = Experiment(
    "Number of stochastic layers",
    scoring("validation", *SCORES),
    ("ari", "mse", "kl"),
    paper="L = 3 is best.",
    protocol=of_variants,
    runs=lambda scale: variants(ROWS, scale, dataset="clevr6"),
    draw=draw,
)
