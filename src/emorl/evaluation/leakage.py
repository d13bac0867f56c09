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
from emorl.evaluation.activeness import ranges_of, slots_of, swept
from emorl.models.base import Model
from emorl.types import Decomposition

LEAST_CHANGE = 1e-3  # mean change inside the mask below which an edit did nothing and says nothing
LEAST_MASK = 0.01  # share of the image that a slot must own to be edited


@dataclass(frozen=True)
class Leakage:
    """Means over edits; both are ratios of a change outside to one inside."""

    image: float  # of the whole picture
    others: float  # of what the other slots contribute, their masks and appearances together
    edits: int


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
    widest = (ranges[1] - ranges[0]).argsort(descending=True)[:dims].tolist()
    found: list[tuple[float, float]] = []
    for n, mine in enumerate(slots):
        before = model.decode(mine[None])
        owned = (
            torch.bincount(before.segmentation.flatten(), minlength=len(mine)) / before.segmentation.numel()
        )
        for k in torch.nonzero(owned >= LEAST_MASK).flatten().tolist():
            copies = torch.cat([swept(mine, k, d, ranges[:, d]) for d in widest])
            found += changes(before, model.decode(copies), k)
        progress(n + 1, len(slots))
    if not found:
        return Leakage(float("nan"), float("nan"), 0)
    image, others = (sum(column) / len(found) for column in zip(*found, strict=True))
    return Leakage(image, others, len(found))


def changes(before: Decomposition, after: Decomposition, k: int) -> list[tuple[float, float]]:
    """For each edit of slot `k` that did something: change outside by change inside, of image and of other slots."""
    inside = torch.maximum(before.masks[:, k], after.masks[:, k])  # (E, 1, H, W)

    def mean(change: Tensor, weight: Tensor) -> Tensor:
        return (change * weight).sum(dim=(1, 2, 3)) / weight.sum(dim=(1, 2, 3)).clamp_min(1e-6)

    change = (after.image - before.image).abs().mean(dim=1, keepdim=True)
    own = [(d.masks * d.components)[:, k] for d in (before, after)]
    rest = (after.image - own[1] - before.image + own[0]).abs().mean(dim=1, keepdim=True)
    within = mean(change, inside)
    pairs = torch.stack([mean(change, 1 - inside) / within, mean(rest, 1 - inside) / within], dim=1)
    return [(float(image), float(others)) for image, others in pairs[within > LEAST_CHANGE]]
