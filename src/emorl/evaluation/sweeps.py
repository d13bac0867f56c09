"""Sweeps: one model, scored again and again while one thing changes that it was not trained with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.evaluation.inference import infer
from emorl.evaluation.segmentation import adjusted_rand_index
from emorl.models.base import Model
from emorl.probability import scene_seeds
from emorl.types import Progress, silent

Row = dict[str, float]


def row_of(value: int, scores: Scores) -> Row:
    """One point of a sweep: every score, and its standard error."""
    row: Row = {"value": value} | {name: scores.mean(name) for name in scores.values}
    return row | {f"{name}_error": scores.standard_error(name) for name in scores.values}


def sweep(
    model: Model,
    scenes: SceneDataset,
    what: Literal["num_steps", "num_slots"],
    values: Sequence[int],
    *,
    progress: Progress = silent,
    **options: Any,
) -> list[Row]:
    """Scores with each of `values` for the number of steps I or of slots K; `options` are those of `evaluate`."""
    rows = []
    for count, value in enumerate(values, start=1):
        budget: Any = {what: value}
        rows.append(row_of(value, evaluate(model, scenes, **budget, **options)))
        progress(count, len(values))
    return rows


def by_objects(scores: Scores, scenes: SceneDataset) -> list[Row]:
    """Scores of one evaluation, apart for scenes with 1, 2, 3, ... objects."""
    counts = torch.tensor(
        [int(scenes[index].segmentation.unique().gt(0).sum()) for index in range(scores.settings["images"])]
    )
    rows = []
    for objects in counts.unique().tolist():
        chosen = {name: values[:, counts == objects] for name, values in scores.values.items()}
        rows.append(
            row_of(objects, Scores(chosen, scores.settings)) | {"images": int((counts == objects).sum())}
        )
    return rows


def stability(
    model: Model, scenes: SceneDataset, *, seeds: int = 5, images: int = 32, progress: Progress = silent
) -> Tensor:
    """How alike several inferences of one image are: their mean ARI with one another, (images,).

    A scene that can be seen in two ways, or that inference finds hard, is far from 1. True masks only tell where the
    background is, which slots share as they like; without them it counts too.
    """
    if seeds < 2:
        raise UserError(f"The number of seeds must be at least 2, not {seeds}.")
    one, other = torch.combinations(torch.arange(seeds)).T
    agreements = []
    for index in range(min(images, len(scenes))):
        scene = scenes[index]
        own = [scene_seeds(seed, [index])[0] for seed in range(seeds)]
        copies = scene.image.to(model.device).expand(seeds, -1, -1, -1)
        found = infer(model, copies, own, means=True).steps[-1].segmentation.cpu()
        counts = scene.segmentation > 0 if scenes.info.has_masks else torch.ones_like(scene.segmentation)
        agreements.append(adjusted_rand_index(found[one], (found[other] + 1) * counts).mean())
        progress(index + 1, images)
    return torch.stack(agreements)
