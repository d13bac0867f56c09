"""Sweeps: one model, scored again and again while one thing changes that it was not trained with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.evaluation.segmentation import adjusted_rand_index
from emorl.models.base import Model, budget
from emorl.probability import noise_from, noise_per_image

Row = dict[str, float]
Progress = Callable[[int, int], None]
# kl_hierarchical is what stage 1 pays for all layers, kl_refined what the last step pays for its own: the paper draws
# the one at I = 0 and the other at I > 0 in one curve (Difference 20).
SCORES = ("ari", "mse", "kl_hierarchical", "kl_refined", "slots_used")


def nothing(done: int, total: int) -> None:
    """No progress is shown."""


def row_of(value: int, scores: Scores) -> Row:
    """One point of a sweep: the scores there are, and their standard errors."""
    names = [name for name in SCORES if name in scores.values]
    row: Row = {"value": value} | {name: scores.mean(name) for name in names}
    return row | {f"{name}_error": scores.standard_error(name) for name in names}


def sweep_steps(
    model: Model, scenes: SceneDataset, values: Sequence[int], *, progress: Progress = nothing, **options: Any
) -> list[Row]:
    """Scores with I = each of `values`; `options` are those of `evaluate`."""
    rows = []
    for count, I in enumerate(values, start=1):
        rows.append(row_of(I, evaluate(model, scenes, num_steps=I, **options)))
        progress(count, len(values))
    return rows


def sweep_slots(
    model: Model, scenes: SceneDataset, values: Sequence[int], *, progress: Progress = nothing, **options: Any
) -> list[Row]:
    """Scores with K = each of `values`: more slots than objects, or fewer."""
    rows = []
    for count, K in enumerate(values, start=1):
        rows.append(row_of(K, evaluate(model, scenes, num_slots=K, **options)))
        progress(count, len(values))
    return rows


def by_objects(scores: Scores, scenes: SceneDataset) -> list[Row]:
    """Scores of one evaluation, apart for scenes with 1, 2, 3, ... objects."""
    counts = torch.tensor(
        [int(scenes[index].segmentation.unique().gt(0).sum()) for index in range_of(scores)]
    )
    rows = []
    for objects in counts.unique().tolist():
        chosen = {name: values[:, counts == objects] for name, values in scores.values.items()}
        rows.append(
            row_of(objects, Scores(chosen, scores.settings)) | {"images": int((counts == objects).sum())}
        )
    return rows


def range_of(scores: Scores) -> Iterable[int]:
    return range(scores.settings["images"])


def stability(
    model: Model, scenes: SceneDataset, *, seeds: int = 5, images: int = 32, progress: Progress = nothing
) -> Tensor:
    """How alike several inferences of one image are: their mean ARI with one another, (images,).

    A scene that can be seen in two ways, or that inference finds hard, is far from 1. True masks only tell where the
    background is, which slots share as they like; without them it counts too.
    """
    device = next(model.parameters()).device
    one, other = torch.combinations(torch.arange(budget(seeds, 5, minimum=2, name="The number of seeds"))).T
    agreements = []
    for index in range(min(images, len(scenes))):
        scene = scenes[index]
        with noise_from(noise_per_image([seed * 1_000_003 + index for seed in range(seeds)])):
            found = model.decompose(scene.image.to(device).expand(seeds, -1, -1, -1)).segmentation.cpu()
        counts = scene.segmentation > 0 if scenes.info.has_masks else torch.ones_like(scene.segmentation)
        agreements.append(adjusted_rand_index(found[one], (found[other] + 1) * counts).mean())
        progress(index + 1, images)
    return torch.stack(agreements)
