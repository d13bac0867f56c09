"""evaluate(): scores of a model on scenes, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.data.loading import in_order
from emorl.errors import UserError
from emorl.evaluation.inference import infer
from emorl.evaluation.metrics import score
from emorl.models.base import Model
from emorl.probability import scene_seeds
from emorl.types import Progress, Scene, silent


@dataclass(frozen=True)
class Scores:
    """Scores of one model on some scenes: N images, each inferred with S seeds."""

    values: dict[str, Tensor]  # name -> (S, N)
    settings: dict[str, Any]  # how they came about

    def of_images(self, name: str) -> Tensor:
        """Means over seeds, (N,)."""
        return self.values[name].mean(dim=0)

    def mean(self, name: str) -> float:
        """Mean over seeds and images."""
        return float(self.values[name].mean())

    def standard_error(self, name: str) -> float:
        """How far other images might be from this mean."""
        values = self.of_images(name)
        return float(values.std() / len(values) ** 0.5) if len(values) > 1 else 0.0

    def deviation(self, name: str) -> float:
        """Standard deviation of the mean over images from seed to seed; NaN with one seed."""
        means = self.values[name].mean(dim=1)
        return float(means.std()) if len(means) > 1 else float("nan")

    def summary(self) -> dict[str, Any]:
        """Means over images, and the settings: what `evaluate --json` prints."""
        return {name: self.mean(name) for name in self.values} | self.settings

    def to_dict(self) -> dict[str, Any]:
        """The summary, standard errors over images, deviations over seeds, and every single value."""
        result = self.summary() | {
            "standard_error": {name: self.standard_error(name) for name in self.values}
        }
        if self.settings["seeds"] > 1:
            result["deviation_over_seeds"] = {name: self.deviation(name) for name in self.values}
        return result | {"per_image": {name: values.tolist() for name, values in self.values.items()}}


def evaluate(
    model: Model,
    scenes: SceneDataset,
    *,
    num_slots: int | None = None,
    num_steps: int | None = None,
    images: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    means: bool = False,
    tries: int = 1,
    batch_size: int = 32,
    progress: Progress = silent,
) -> Scores:
    """Scores a posterior sample of each of the first `images` scenes, for each of `seeds` seeds from `seed` on.

    Noise is a function of (seed, scene). With `means`, the last posterior is not sampled but taken at its mean
    (Difference 33). With several `tries` each image counts with the one of the smallest squared error, as in
    `Model.decompose`.
    """
    count = len(scenes) if images is None else min(images, len(scenes))
    if count < 1:
        raise UserError("At least one image is needed for an evaluation.")
    if scenes.info.image_size != model.config.image_size:
        raise UserError(
            f"The model takes images of {model.config.image_size} pixels a side; "
            f"{scenes.info.name} has {scenes.info.image_size}."
        )
    if seeds < 1:
        raise UserError(f"The number of seeds must be at least 1, not {seeds}.")

    def score_with(seed: int, batch: Scene, indices: Sequence[int]) -> dict[str, Tensor]:
        seeds = scene_seeds(seed, indices)
        found = infer(
            model, batch.image, seeds, means=means, tries=tries, num_slots=num_slots, num_steps=num_steps
        )
        return score(found, batch, has_masks=scenes.info.has_masks)

    chosen = range(seed, seed + seeds)
    batches = []
    for indices, batch in in_order(scenes, batch_size, limit=count):
        batch = batch.to(model.device)
        scores = [score_with(one, batch, indices) for one in chosen]
        batches.append({name: torch.stack([one[name] for one in scores]) for name in scores[0]})
        progress(indices[-1] + 1, count)
    values = {name: torch.cat([batch[name] for batch in batches], dim=1) for name in batches[0]}
    settings = {
        "images": count,
        "num_slots": model.config.num_slots if num_slots is None else num_slots,
        "num_steps": getattr(model.config, "num_steps", None) if num_steps is None else num_steps,
        "seed": seed,
        "seeds": len(chosen),
        "means": means,
        "tries": tries,
    }
    return Scores(values, settings)
