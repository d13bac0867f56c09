"""Inference whose randomness is a function of a seed and of the scene, so that batches do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.models.base import Model, best_of, budget
from emorl.probability import noise_from, noise_per_image, posterior_means
from emorl.types import Decomposition, Outcome


def scene_seeds(seed: int, indices: Sequence[int]) -> list[int]:
    """One seed for each scene, different for every pair of `seed` and index."""
    return [seed * 1_000_003 + index for index in indices]


def infer(
    model: Model, images: Tensor, seeds: Sequence[int], *, means: bool = False, tries: int = 1, **options: Any
) -> Outcome:
    """Infers slots for `images` (B, 3, H, W), each with the noise of its own seed.

    With `means` posteriors are taken at their means instead of being sampled. Of several `tries` each image gets the
    one with the smallest squared error. `options` are those of `Model.infer`.
    """
    count = budget(tries, 1, minimum=1, name="The number of tries")
    with noise_from(noise_per_image(seeds)), posterior_means() if means else nullcontext():
        return best_of([model.infer(images, **options) for _ in range(count)], images)


def decompose_scene(
    model: Model, scenes: SceneDataset, index: int, *, seed: int = 0, sample: bool = False, **options: Any
) -> Decomposition:
    """Scene `index` taken apart, on the model's device; with `sample` as `evaluate` scores it. B is 1."""
    image = scenes[index].image[None].to(next(model.parameters()).device)
    return infer(model, image, scene_seeds(seed, [index]), means=not sample, **options).steps[-1]


def can_iterate(model: Model, steps: int) -> bool:
    """Whether the model can be asked for this number of steps at test time. The one place that finds out by trying."""
    size = model.config.image_size
    x = torch.zeros(1, 3, size, size, device=next(model.parameters()).device)
    try:
        model.infer(x, num_steps=steps)
    except UserError:
        return False
    return True
