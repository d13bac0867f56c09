"""Decompositions as pictures: rows of panels, segmentations in colours, PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores
from emorl.models.base import Model
from emorl.probability import noise_from, noise_per_image
from emorl.plots.panels import Panels, Pixels, palette
from emorl.types import Decomposition, Scene


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


def scene_panels(
    model: Model,
    scenes: SceneDataset,
    *,
    indices: Sequence[int] = range(8),
    seed: int = 0,
    labels: Sequence[str] = (),
    **options: Any,
) -> Panels:
    """Scenes taken apart, one per row; indices beyond the last scene are left out.

    `options` are those of `Model.decompose`; with `sample` and the same seed they are what `evaluate` scored.
    """
    device = next(model.parameters()).device
    rows = []
    for index in (index for index in indices if index < len(scenes)):
        x = scenes[index].image
        with noise_from(noise_per_image([seed * 1_000_003 + index])):
            rows.append(decomposition_row(x, model.decompose(x[None].to(device), **options)))
    titles = ["image", "rebuilt", "masks", *(f"slot {k}" for k in range(len(rows[0]) - 3))]
    return Panels(rows, labels, titles, slots_from=3)


def scenes_apart(model: Model, scenes: SceneDataset, **options: Any) -> Image.Image:
    """The first eight scenes taken apart, or as `options` of `scene_panels` say."""
    return scene_panels(model, scenes, **options).drawn()


def worst_scenes(scores: Scores, count: int = 8) -> list[int]:
    """The scenes with the lowest ARI, worst first; where objects are not known, with the largest squared error."""
    badness = -scores.of_images("ari") if "ari" in scores.values else scores.of_images("mse")
    return [int(index) for index in badness.argsort(descending=True)[:count]]


def scene_row(scene: Scene) -> list[Pixels]:
    """Panels for one true scene: image and segmentation."""
    return [to_pixels(scene.image), segmentation_pixels(scene.segmentation, has_background=True)]


def grid(rows: Sequence[Sequence[Pixels | None]]) -> Image.Image:
    """Lays panels out on white, one list per row; all panels have the same size."""
    return Panels(rows).drawn()


def stacked(pictures: Sequence[Image.Image]) -> Image.Image:
    """Pictures below one another, on white."""
    size = (max(one.width for one in pictures), sum(one.height for one in pictures))
    whole, top = Image.new("RGB", size, "white"), 0
    for one in pictures:
        whole.paste(one, (0, top))
        top += one.height
    return whole


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
