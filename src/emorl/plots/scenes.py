"""What models do as rows of panels: scenes taken apart, inference step by step, edits of slots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import Scores
from emorl.evaluation.inference import decompose_scene, infer
from emorl.evaluation.latents import Edit, slots_of, swept
from emorl.evaluation.metrics import METRICS
from emorl.models.base import Model
from emorl.panels import (
    FIRST,
    Panels,
    Pixels,
    owner_pixels,
    picture_row,
    segmentation_pixels,
    titles_of,
    to_pixels,
)
from emorl.probability import scene_seeds
from emorl.types import Decomposition, Scene


def decomposition_row(image: Tensor, d: Decomposition) -> list[Pixels]:
    """Panels of an image and its decomposition, whose B is 1, as `picture_row` has them."""
    return picture_row(image, d.masks[0], d.components[0])


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

    `options` are those of `decompose_scene`; with `sample` and the same seed they are what `evaluate` scored.
    """
    rows = [
        decomposition_row(scenes[index].image, decompose_scene(model, scenes, index, seed=seed, **options))
        for index in indices
        if index < len(scenes)
    ]
    return Panels(rows, labels, titles_of(rows[0]), slots_from=len(FIRST))


def worst_by(scores: Scores) -> str:
    """The score that tells which scenes are worst: ARI, or the squared error where objects are not known."""
    return "ari" if "ari" in scores.values else "mse"


def worst_scenes(scores: Scores, count: int = 8) -> list[int]:
    """The scenes with the lowest ARI or the largest squared error, the worst first."""
    name = worst_by(scores)
    values = scores.of_images(name)
    return [int(index) for index in values.argsort(descending=METRICS[name].direction == "down")[:count]]


def scene_row(scene: Scene) -> list[Pixels]:
    """Panels for one true scene: image and segmentation."""
    return [to_pixels(scene.image), segmentation_pixels(scene.segmentation, has_background=True)]


def scene_grid(scenes: SceneDataset, count: int) -> Panels:
    """The first `count` true scenes, four to a row."""
    rows = [scene_row(scenes[index]) for index in range(min(count, len(scenes)))]
    return Panels([list(chain(*rows[first : first + 4])) for first in range(0, len(rows), 4)])


# Inference step by step, as in the paper's Figure 6: the posterior after each layer and refinement, and its attention.


def posterior_panels(
    model: Model, scenes: SceneDataset, *, scene: int = 0, seed: int = 0, **options: Any
) -> Panels:
    """One row for each step of inference on one scene, below the image itself; `options` are those of `infer`."""
    true = scenes[scene]
    x = true.image[None].to(model.device)
    steps = infer(model, x, scene_seeds(seed, [scene]), trace=True, **options).steps
    head: Sequence[Pixels | None] = scene_row(true) if scenes.info.has_masks else [to_pixels(true.image)]
    rows = [head, *(posterior_row(true.image, step) for step in steps)]
    titles = ["rebuilt", "masks", "attention", *(f"slot {k}" for k in range(steps[-1].masks.shape[1]))]
    return Panels(rows, ["scene", *step_names(steps)], titles, slots_from=3)


def step_names(steps: Sequence[Decomposition]) -> list[str]:
    """Steps that attend to the image are layers, those that do not refine; where all are alike, they are steps."""
    attends = [step.attention is not None for step in steps]
    if all(attends) or not any(attends):
        return [f"step {number}" for number in range(1, len(steps) + 1)]
    return [
        f"layer {sum(attends[: i + 1])}" if attends[i] else f"refined {attends[: i + 1].count(False)}"
        for i in range(len(steps))
    ]


def posterior_row(image: Tensor, step: Decomposition) -> list[Pixels | None]:
    """Panels: reconstruction, masks, the slot with most attention at each place, and the image times each attention.

    A step without attention uses the slots' masks in its place.
    """
    seen = step.masks[0] if step.attention is None else enlarged(step.attention[0], image.shape[-1])
    assigned = None if step.attention is None else seen.argmax(dim=0).squeeze(0)
    return [
        to_pixels(step.image[0]),
        owner_pixels(step.masks[0]),
        None if assigned is None else segmentation_pixels(assigned, has_background=False),
        *(to_pixels(image * (of_slot / of_slot.amax().clamp_min(1e-6)).cpu()) for of_slot in seen),
    ]


def enlarged(attention: Tensor, side: int) -> Tensor:
    """Attention (K, 1, h, w) at the size of the image, without smoothing."""
    return F.interpolate(attention, (side, side), mode="nearest")


# Edits, as in the paper's appendix B: a scene before and after one number of one slot was changed.

EDIT_TITLES = ("image", "rebuilt", "edited slot", "after", "change", "masks", "masks after")
CONTRAST = 3.0  # by which the change is enlarged, so that a faint one is seen


@torch.no_grad()
def edit_row(model: Model, scenes: SceneDataset, edit: Edit) -> list[Pixels]:
    """Panels for one of the edits that `leakage` of the same model and scenes has made."""
    slots = slots_of(model, scenes, images=edit.scene + 1)[edit.scene]
    copies = swept(slots, edit.slot, edit.dim, slots.new_tensor([slots[edit.slot, edit.dim], edit.value]))
    found = model.decode(copies)  # as it was, and changed
    change = (found.image[1] - found.image[0]).abs().mean(dim=0, keepdim=True).expand(3, -1, -1)
    mask = found.masks[0, edit.slot]
    return [
        to_pixels(scenes[edit.scene].image),
        to_pixels(found.image[0]),
        to_pixels(mask * found.components[0, edit.slot] + (1 - mask)),
        to_pixels(found.image[1]),
        to_pixels(CONTRAST * change),
        *map(owner_pixels, found.masks),
    ]
