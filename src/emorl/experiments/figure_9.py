"""Figure 9: traversals, and how many dimensions of a slot are active."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import activeness, latent_ranges
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job, row_of
from emorl.experiments.results import Row
from emorl.experiments.scales import of_presets, systems
from emorl.plots.files import save_picture
from emorl.plots.traversals import traversal_panels, traverse
from emorl.runs.run import Run


def measure(job: Job) -> Iterator[Row]:
    """How many dimensions of a slot change the image."""
    for run in job.trained:
        found = activeness(run.model, run.scenes("test"), images=100)
        values = {
            "active": len(found.active),
            "dimensions": len(found.values),
            "activeness": found.values.tolist(),
        }
        yield row_of(run, values, scenes="test")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """The eight most active dimensions of one slot, from one end of their range to the other."""
    model, scenes = trained[0].model, trained[0].scenes("test")
    active = rows[0].values["activeness"]
    order = sorted(range(len(active)), key=lambda d: -active[d])
    found = decompose_scene(model, scenes, 0)
    save_picture(traversal_panels(traverse(model, found, latent_ranges(model, scenes), order[:8])), path)


EXPERIMENT = Experiment(
    "Traversals and activeness",
    measure,
    ("active", "dimensions"),
    paper="Few dimensions of a slot are active, and each changes one thing.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, ("clevr6",), ("efficient-morl",), long="instead"),
    draw=draw,
    metrics={"dimensions": Metric("of", "the size of a slot", 0)},
)
