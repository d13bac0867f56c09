"""Inference step by step, as in the paper's Figure 6: what each layer and refinement believes, and where it looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.models.base import Model
from emorl.probability import noise_from, noise_per_image
from emorl.plots.pictures import scene_row, segmentation_pixels, to_pixels
from emorl.plots.panels import Panels, Pixels
from emorl.types import Decomposition


def posterior_panels(
    model: Model, scenes: SceneDataset, *, scene: int = 0, seed: int = 0, **options: Any
) -> Panels:
    """One row for each step of inference on one scene, below the image itself; `options` are those of `infer`."""
    true = scenes[scene]
    x = true.image[None].to(next(model.parameters()).device)
    with noise_from(noise_per_image([seed * 1_000_003 + scene])):
        steps = model.infer(x, trace=True, **options).steps
    head: Sequence[Pixels | None] = scene_row(true) if scenes.info.has_masks else [to_pixels(true.image)]
    rows = [head, *(posterior_row(true.image, step) for step in steps)]
    titles = ["rebuilt", "masks", "attention", *(f"slot {k}" for k in range(steps[-1].masks.shape[1]))]
    return Panels(rows, ["scene", *step_names(steps)], titles, slots_from=3)


def posteriors(model: Model, scenes: SceneDataset, **options: Any) -> Image.Image:
    """Inference on one scene as a picture; `options` are those of `posterior_panels`."""
    return posterior_panels(model, scenes, **options).drawn()


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
    """Panels: reconstruction, masks, who attends where, and the image in the light of each slot's attention.

    A step without attention has the slots' masks for light.
    """
    light = step.masks[0] if step.attention is None else enlarged(step.attention[0], image.shape[-1])
    assigned = None if step.attention is None else light.argmax(dim=0).squeeze(0)
    return [
        to_pixels(step.image[0]),
        segmentation_pixels(step.segmentation[0], has_background=False),
        None if assigned is None else segmentation_pixels(assigned, has_background=False),
        *(to_pixels(image * (of_slot / of_slot.amax().clamp_min(1e-6)).cpu()) for of_slot in light),
    ]


def enlarged(attention: Tensor, side: int) -> Tensor:
    """Attention (K, 1, h, w) at the size of the image, without smoothing."""
    return F.interpolate(attention, (side, side), mode="nearest")
