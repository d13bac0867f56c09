"""Inference whose randomness is a function of a seed and of the scene, so that batches do not matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.data.loading import in_order
from emorl.errors import check_range
from emorl.models.base import MOST_TRIES, Model, best_of, check_finite
from emorl.probability import noise_per_image, scene_seeds
from emorl.types import Decomposition, Outcome, Scene

BATCH = 32  # scenes to infer together


def infer(
    model: Model, images: Tensor, seeds: Sequence[int], *, means: bool = False, tries: int = 1, **options: Any
) -> Outcome:
    """Infers slots for `images` (B, 3, H, W), each with the noise of its own seed.

    With `means` the last posterior is taken at its mean instead of being sampled. Of several `tries` each image gets
    the one with the smallest squared error. `options` are those of `Model.infer`. Raises NotFinite for a model that is
    broken.
    """
    check_range("tries", tries, 1, MOST_TRIES)
    noise = noise_per_image(seeds, means=means)
    return check_finite(best_of([model.infer(images, noise=noise, **options) for _ in range(tries)], images))


def infer_scenes(
    model: Model, scenes: SceneDataset, *, images: int | None = None, seed: int = 0, means: bool = False
) -> Iterator[tuple[Scene, Decomposition]]:
    """Yields batches of the first `images` scenes, on the model's device, and what it makes of them."""
    for indices, batch in in_order(scenes, BATCH, limit=images):
        batch = batch.to(model.device)
        yield batch, infer(model, batch.image, scene_seeds(seed, indices), means=means).steps[-1]


def decompose_scene(
    model: Model, scenes: SceneDataset, index: int, *, seed: int = 0, sample: bool = False, **options: Any
) -> Decomposition:
    """Scene `index` taken apart, on the model's device; with `sample` as `evaluate` scores it. B is 1."""
    image = scenes[index].image[None].to(model.device)
    return infer(model, image, scene_seeds(seed, [index]), means=not sample, **options).steps[-1]
