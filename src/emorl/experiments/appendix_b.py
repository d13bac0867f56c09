"""Appendix B: edits of textured sprites, and how much of them lands elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.latents import leakage
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job, row_of, titled
from emorl.experiments.results import Row
from emorl.experiments.scales import of_presets, systems
from emorl.panels import Panels
from emorl.plots.files import save_picture
from emorl.plots.scenes import EDIT_TITLES, edit_row
from emorl.runs.run import Run

EDITED = 4  # scenes with an edit in the picture


def measure(job: Job) -> Iterator[Row]:
    """Yields ARI and leakage: change outside the edited mask relative to inside, of the image and of other slots."""
    for run in job.trained:
        scenes = run.scenes("test")
        found = leakage(run.model, scenes)
        values = {"leakage": found.image, "leakage_of_others": found.others, "edits": len(found.edits)}
        yield row_of(run, {"ari": evaluate(run.model, scenes).mean("ari"), **values}, scenes="test")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """A typical edit of each of a few scenes, which are the same for all models."""
    labels, panels = [], []
    for run in trained:
        scenes = run.scenes("test")
        found = leakage(run.model, scenes, images=EDITED)
        for edit in filter(None, map(found.typical, range(EDITED))):
            panels.append(edit_row(run.model, scenes, edit))
            labels.append(f"{run.label.split(',')[0]}: {edit.leaked:.0%}")
    save_picture(Panels(panels, labels, EDIT_TITLES), path)


EXPERIMENT = Experiment(
    "Edits of textured sprites",
    measure,
    ("ari", "leakage", "leakage_of_others", "edits"),
    paper="Edits of EfficientMORL's slots stay with their object; those of GENESIS's change other slots too.",
    protocol=of_presets,
    runs=lambda scale: systems(scale, ("multi-dsprites-textured",), ("efficient-morl", "genesis")),
    draw=draw,
    metrics={
        "leakage_of_others": titled("leakage", title="Leakage of other slots"),
        "edits": Metric("Edits", "that were measured", 0),
    },
)
