"""CLEVR, rendered locally: CLEVR's own scene rules and a ray caster in numpy, close to Blender's pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from emorl.data.base import Array, Arrays, DatasetInfo, FactorKind, SceneDataset, padded
from emorl.data.clevr.render import HEIGHT, WIDTH, Quality, render, segment
from emorl.data.clevr.scene import LARGE, ClevrScene, draw_scene

LEAST_VISIBLE = 200  # pixels of the 320x240 picture that CLEVR wants to see of every object
FACTORS: dict[str, FactorKind] = {
    "x": "continuous",
    "y": "continuous",
    "z": "continuous",
    "yaw": "continuous",
    "size": "discrete",
    "material": "discrete",
    "shape": "discrete",
    "color": "discrete",
    "visible_pixels": "continuous",
    "visibility": "discrete",
}


class Clevr(SceneDataset):
    """Scene i is a pure function of (seed, i). Objects that the usual crop leaves out are not counted.

    `segmentation_full` belongs to the 192x192 window that is rendered, `segmentation` to the image.
    """

    chunk = 16  # takes two seconds

    def __init__(
        self,
        counts: tuple[int, int] = (3, 10),
        *,
        name: str = "clevr",
        seed: int = 0,
        length: int = 50_000,
        size: int = 96,
        quality: Quality = "full",
    ) -> None:
        self.counts, self.seed, self.length, self.size, self.quality = counts, seed, length, size, quality
        self.info = DatasetInfo(
            name=name,
            image_size=size,
            max_objects=counts[1],
            factors=FACTORS,
            description=f"{counts[0]} to {counts[1]} shaded solids on a grey ground, {size}x{size}"
            + ("" if quality == "full" else ", rendered twice as fast and a little rougher"),
            origin=f"seed {seed}" if quality == "full" else f"seed {seed}, {quality}",
            title=name.replace("clevr", "CLEVR").removesuffix("-fast"),
            train_size=50_000,
        )

    def __len__(self) -> int:
        return self.length

    def arrays(self, index: int) -> Arrays:
        scene = self.scene(index)
        pixels, ids = render(scene, self.quality)
        counts = np.bincount(ids.ravel(), minlength=len(scene) + 1)[1:]
        visible = np.flatnonzero(counts)
        renumbered = np.zeros(len(scene) + 1, dtype=np.uint8)
        renumbered[visible + 1] = np.arange(1, len(visible) + 1)
        ids = renumbered[ids]
        factors = {
            "x": scene.x,
            "y": scene.y,
            "z": scene.radius,
            "yaw": scene.yaw,
            "size": np.where(scene.radius == LARGE, 1, 2),
            "material": scene.material,
            "shape": scene.shape,
            "color": scene.color,
            "visible_pixels": counts,
            "visibility": np.ones(len(scene)),
        }
        return {
            "image": resized(pixels, self.size),
            "segmentation": np.asarray(
                Image.fromarray(ids).resize((self.size, self.size), Image.Resampling.NEAREST)
            ),
            "segmentation_full": ids,
            **{name: padded(values[visible], self.counts[1]) for name, values in factors.items()},
        }

    def scene(self, index: int) -> ClevrScene:
        """Draws scenes until all objects are visible enough in the whole picture, as CLEVR does."""
        rng = np.random.default_rng((self.seed, index))
        count = int(rng.integers(self.counts[0], self.counts[1] + 1))
        while True:
            scene = draw_scene(rng, count)
            ids = segment(scene, (0, HEIGHT), (0, WIDTH))
            if np.bincount(ids.ravel(), minlength=count + 1)[1:].min() >= LEAST_VISIBLE:
                return scene


def resized(pixels: Array, size: int) -> Array:
    """Returns a picture resized: bicubic to 96, as EfficientMORL did; bilinear to others, as Slot Attention did."""
    method = Image.Resampling.BICUBIC if size == 96 else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(pixels).resize((size, size), method))
