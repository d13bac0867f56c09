"""CLEVR6 pictures that were not drawn here: scores of our runs on scenes rendered by Blender, beside our own scenes'.

Needs a folder with clevr_blender_24.npz (`--files`), as `emorl reproduce clevr` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.data.clevr import resized
from emorl.evaluation.evaluate import evaluate
from emorl.experiments.base import BLENDER, Experiment, Job, means, row_of, titled
from emorl.experiments.results import Row
from emorl.experiments.scales import of_presets, systems

SCORES = ("ari", "ari_with_background", "miou", "mse")


class BlenderScenes(SceneDataset):
    """The scenes of the file, with images of `size` pixels a side."""

    def __init__(self, path: Path, size: int) -> None:
        reference = np.load(path)
        self.images, self.masks, self.size = reference["images192"], reference["masks"], size
        self.info = DatasetInfo("clevr6-blender", size, 6, {}, title="CLEVR6 from Blender")

    def __len__(self) -> int:
        return len(self.images)

    def arrays(self, index: int) -> Arrays:
        mask = Image.fromarray(self.masks[index])
        return {
            "image": resized(self.images[index], self.size),
            "segmentation": np.asarray(mask.resize((self.size, self.size), Image.Resampling.NEAREST)),
            "segmentation_full": self.masks[index],
        }


def measure(job: Job) -> Iterator[Row]:
    """Yields a row for each run: scores on Blender's scenes, and ARI on our own held-out ones."""
    path = job.published_file(BLENDER, "blender")
    for run in job.trained:
        scores = evaluate(run.model, BlenderScenes(path, run.config.model.image_size))
        own = evaluate(run.model, run.scenes("test")).mean("ari")
        yield row_of(run, {**means(scores, *SCORES), "ari_of_own_scenes": own}, scenes="clevr6-blender")


EXPERIMENT = Experiment(
    "Pictures from Blender",
    measure,
    (*SCORES, "ari_of_own_scenes"),
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, ("clevr6",), long="too"),
    metrics={"ari_of_own_scenes": titled("ari", title="ARI on our own scenes")},
)
