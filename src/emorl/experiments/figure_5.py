"""Figure 5: scenes of every data set, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from emorl.experiments.base import Experiment, scoring
from emorl.experiments.results import Row
from emorl.experiments.scales import DATASETS, of_presets, systems
from emorl.plots.files import save_picture, stacked
from emorl.plots.scenes import scene_panels
from emorl.runs.run import Run

SCORES = ("ari", "ari_with_background", "miou", "mse")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Four scenes of each data set, by the first seed."""
    first: dict[str, Run] = {}
    for run in trained:
        first.setdefault(run.label, run)
    pictures = [
        scene_panels(run.model, run.scenes("test"), indices=range(4), sample=True) for run in first.values()
    ]
    save_picture(stacked(pictures), path)


EXPERIMENT = Experiment(
    "Decompositions",
    scoring("test", *SCORES),
    SCORES,
    paper="Objects come apart on all data sets.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, DATASETS, ("efficient-morl",), long="instead"),
    draw=draw,
)
