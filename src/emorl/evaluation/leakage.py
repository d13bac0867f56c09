"""Leakage: when one number of one slot is changed, how much of the image changes that is not the slot's?

In a good decomposition an edit stays where the edited object is. The score is the mean change of a pixel outside the
slot's mask, before and after the edit, divided by the mean change inside: 0 is clean, 1 is no object at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.evaluation.activeness import ranges_of, slots_of, swept, widest
from emorl.models.base import Model
from emorl.types import Decomposition

LEAST_CHANGE = 1e-3  # mean change inside the mask below which an edit did nothing and says nothing
LEAST_MASK = 0.01  # share of the image that a slot must own to be edited


@dataclass(frozen=True)
class Edit:
    """One number of one slot of one scene set to another value, and what of the change was elsewhere."""

    scene: int
    slot: int
    dim: int
    value: float
    image: float  # change outside the slot's mask by change inside, of the whole picture
    others: float  # of what the other slots contribute, their masks and appearances together


@dataclass(frozen=True)
class Leakage:
    """Means over edits."""

    edits: tuple[Edit, ...]

    @property
    def image(self) -> float:
        return self.mean([edit.image for edit in self.edits])

    @property
    def others(self) -> float:
        return self.mean([edit.others for edit in self.edits])

    @staticmethod
    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else float("nan")

    def typical(self, scene: int) -> Edit | None:
        """The edit of a scene in the middle between those that leak least and most."""
        mine = sorted((edit for edit in self.edits if edit.scene == scene), key=lambda edit: edit.image)
        return mine[len(mine) // 2] if mine else None


@torch.no_grad()
def leakage(
    model: Model,
    scenes: SceneDataset,
    *,
    images: int = 32,
    dims: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Leakage:
    """Sets each of the `dims` widest dimensions of every slot that owns something to the ends of its range."""
    slots = slots_of(model, scenes, images=images, seed=seed)
    ranges = ranges_of(slots)
    places = [(d, value) for d in widest(ranges, dims) for value in ranges[:, d].tolist()]
    found = []
    for n, mine in enumerate(slots):
        before = model.decode(mine[None])
        owned = (
            torch.bincount(before.segmentation.flatten(), minlength=len(mine)) / before.segmentation.numel()
        )
        for k in torch.nonzero(owned >= LEAST_MASK).flatten().tolist():
            copies = torch.cat([swept(mine, k, d, mine.new_tensor([value])) for d, value in places])
            leaked = changes(before, model.decode(copies), k)
            found += [
                Edit(n, k, d, value, *both)
                for (d, value), both in zip(places, leaked, strict=True)
                if both is not None
            ]
        progress(n + 1, len(slots))
    return Leakage(tuple(found))


def changes(before: Decomposition, after: Decomposition, k: int) -> list[tuple[float, float] | None]:
    """For each edit of slot `k`: change outside by change inside, of image and other slots; None if it did nothing."""
    inside = torch.maximum(before.masks[:, k], after.masks[:, k])  # (E, 1, H, W)

    def mean(change: Tensor, weight: Tensor) -> Tensor:
        return (change * weight).sum(dim=(1, 2, 3)) / weight.sum(dim=(1, 2, 3)).clamp_min(1e-6)

    change = (after.image - before.image).abs().mean(dim=1, keepdim=True)
    own = [(d.masks * d.components)[:, k] for d in (before, after)]
    rest = (after.image - own[1] - before.image + own[0]).abs().mean(dim=1, keepdim=True)
    within = mean(change, inside)
    image, others = mean(change, 1 - inside) / within, mean(rest, 1 - inside) / within
    return [
        (float(image[e]), float(others[e])) if within[e] > LEAST_CHANGE else None for e in range(len(within))
    ]
