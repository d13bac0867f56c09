"""Decompositions as pictures: rows of panels, segmentations in colours, PNG files."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.models.base import Model
from emorl.probability import noise_from, noise_per_image
from emorl.types import Decomposition, Scene

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (H, W, 3)

PANEL = 105  # least side of a panel on paper, in pixels: small images are enlarged by a whole factor
GAP = 4


def palette(count: int) -> Pixels:
    """`count` colours far apart in hue; neighbours differ in brightness too. Returns (count, 3)."""
    golden = 0.61803398875
    colors = [colorsys.hsv_to_rgb((0.58 + golden * k) % 1, 0.72, 0.95 - 0.25 * (k % 2)) for k in range(count)]
    return (np.array(colors).reshape(-1, 3) * 255).astype(np.uint8)


def to_pixels(image: Tensor) -> Pixels:
    """Turns (3, H, W) in [0, 1] into 8-bit (H, W, 3)."""
    return (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()


def segmentation_pixels(segmentation: Tensor, *, has_background: bool) -> Pixels:
    """Colours ids (H, W); with a background, id 0 is dark grey."""
    colors = palette(int(segmentation.max()) + 1)
    if has_background:
        colors = np.concatenate([np.full((1, 3), 40, dtype=np.uint8), colors])
    pixels: Pixels = colors[segmentation.cpu().numpy()]
    return pixels


def decomposition_row(image: Tensor, d: Decomposition, b: int = 0) -> list[Pixels]:
    """Panels for image `b`: input, reconstruction, segmentation, then each slot's component on its mask."""
    slots = [d.masks[b, k] * d.components[b, k] + (1 - d.masks[b, k]) for k in range(d.masks.shape[1])]
    return [
        to_pixels(image),
        to_pixels(d.image[b]),
        segmentation_pixels(d.segmentation[b], has_background=False),
        *map(to_pixels, slots),
    ]


def scenes_apart(model: Model, scenes: SceneDataset, *, count: int = 8, **options: Any) -> Image.Image:
    """The first `count` scenes taken apart, one per row; `options` are those of `Model.decompose`."""
    rows = []
    for index in range(min(count, len(scenes))):
        x = scenes[index].image
        with noise_from(noise_per_image([index])):
            rows.append(decomposition_row(x, model.decompose(x[None], **options)))
    return grid(rows)


def scene_row(scene: Scene) -> list[Pixels]:
    """Panels for one true scene: image and segmentation."""
    return [to_pixels(scene.image), segmentation_pixels(scene.segmentation, has_background=True)]


def grid(rows: list[list[Pixels]]) -> Image.Image:
    """Lays panels out on white, one list per row; all panels have the same size."""
    side = rows[0][0].shape[0]
    scale = max(1, -(-PANEL // side))
    step = side * scale + GAP
    columns = max(map(len, rows))
    canvas = Image.new("RGB", (columns * step + GAP, len(rows) * step + GAP), "white")
    for r, row in enumerate(rows):
        for c, panel in enumerate(row):
            enlarged = Image.fromarray(panel).resize((side * scale, side * scale), Image.Resampling.NEAREST)
            canvas.paste(enlarged, (GAP + c * step, GAP + r * step))
    return canvas


def save_picture(picture: Image.Image, path: Path) -> None:
    """Writes an image file, and the folder it belongs in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except (OSError, ValueError) as error:  # ValueError: a suffix that names no image format
        raise UserError(f"Cannot write {path}: {getattr(error, 'strerror', None) or error}.") from None


def save_decomposition(path: Path, image: Tensor, d: Decomposition, b: int = 0) -> None:
    """Writes `path`.png, the row of panels, and `path`.npz, the numbers behind it."""
    save_picture(grid([decomposition_row(image, d, b)]), path.with_name(path.name + ".png"))
    arrays = {"masks": d.masks[b], "components": d.components[b], "slots": d.slots[b]}
    arrays |= {"image": d.image[b], "segmentation": d.segmentation[b]}
    numbers: dict[str, Any] = {name: t.cpu().numpy() for name, t in arrays.items()}
    np.savez_compressed(path.with_name(path.name + ".npz"), **numbers)
