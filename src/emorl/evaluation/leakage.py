"""Leakage: when one number of one slot is changed, how much of the image changes that is not the slot's?

In a good decomposition an edit stays where the edited object is. The score is the mean change of a pixel outside the
slot's mask, before and after the edit, divided by the mean change inside: 0 is clean, 1 is no object at all. Means are
over all numbers of all slots, so those that do little count little.
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
class Edit:
    """One number of one slot of one scene set to another value, and the mean change of a pixel."""

    scene: int
    slot: int
    dim: int
    value: float
    inside: float  # the slot's mask
    outside: float
    others: float  # outside, of what the other slots contribute: their masks and appearances together

    @property
    def leaked(self) -> float:
        return self.outside / self.inside


@dataclass(frozen=True)
class Leakage:
    """Over all edits that did something."""

    edits: tuple[Edit, ...]

    @property
    def image(self) -> float:
        return self.by_inside(sum(edit.outside for edit in self.edits))

    @property
    def others(self) -> float:
        return self.by_inside(sum(edit.others for edit in self.edits))

    def by_inside(self, change: float) -> float:
        return change / sum(edit.inside for edit in self.edits) if self.edits else float("nan")

    def typical(self, scene: int) -> Edit | None:
        """Of the tenth of a scene's edits that change most, the one in the middle between leaking least and most."""
        mine = sorted(
            (edit for edit in self.edits if edit.scene == scene), key=lambda edit: -edit.inside - edit.outside
        )
        strong = sorted(mine[: 1 + len(mine) // 10], key=lambda edit: edit.leaked)
        return strong[len(strong) // 2] if strong else None


@torch.no_grad()
def leakage(
    model: Model,
    scenes: SceneDataset,
    *,
    images: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Leakage:
    """Sets each number of every slot that owns something to the ends of its range."""
    slots = slots_of(model, scenes, images=images, seed=seed)
    ranges = ranges_of(slots)
    places = [(d, value) for d in range(slots.shape[2]) for value in ranges[:, d].tolist()]
    found: list[Edit] = []
    for n, mine in enumerate(slots):
        before = model.decode(mine[None])
        owned = (
            torch.bincount(before.segmentation.flatten(), minlength=len(mine)) / before.segmentation.numel()
        )
        for k in torch.nonzero(owned >= LEAST_MASK).flatten().tolist():
            copies = torch.cat([swept(mine, k, d, mine.new_tensor([value])) for d, value in places])
            changed = torch.cat([changes(before, model.decode(part), k) for part in copies.split(32)])
            found += [
                Edit(n, k, d, value, inside, outside, others)
                for (d, value), (inside, outside, others) in zip(places, changed.tolist(), strict=True)
                if inside > LEAST_CHANGE
            ]
        progress(n + 1, len(slots))
    return Leakage(tuple(found))


def changes(before: Decomposition, after: Decomposition, k: int) -> Tensor:
    """For each of E edits of slot `k`: mean change inside its mask, outside, and outside of other slots. (E, 3)."""
    inside = torch.maximum(before.masks[:, k], after.masks[:, k])  # (E, 1, H, W)

    def mean(change: Tensor, weight: Tensor) -> Tensor:
        return (change * weight).sum(dim=(1, 2, 3)) / weight.sum(dim=(1, 2, 3)).clamp_min(1e-6)

    change = (after.image - before.image).abs().mean(dim=1, keepdim=True)
    own = [(d.masks * d.components)[:, k] for d in (before, after)]
    rest = (after.image - own[1] - before.image + own[0]).abs().mean(dim=1, keepdim=True)
    return torch.stack([mean(change, inside), mean(change, 1 - inside), mean(rest, 1 - inside)], dim=1)
