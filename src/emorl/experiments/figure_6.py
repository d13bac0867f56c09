"""Figure 6: posteriors and attention after each layer and refinement step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emorl.experiments.base import Experiment, scoring
from emorl.experiments.results import Row
from emorl.experiments.scales import of_presets, systems
from emorl.plots.files import save_picture
from emorl.plots.scenes import posterior_panels
from emorl.runs.run import Run


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws the intermediate posteriors and attention of the first run."""
    save_picture(posterior_panels(trained[0].model, trained[0].scenes("test")), path)


EXPERIMENT = Experiment(
    "Intermediate posteriors and attention",
    scoring("test", "ari"),
    ("ari",),
    paper="Layers divide the scene among slots, refinement does the rest.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, ("clevr6",), ("efficient-morl",), long="instead"),
    draw=draw,
)
