"""What single numbers of a slot do to the image: activeness (how much changes) and leakage (how much elsewhere).

Activeness: dimension d is moved through its range in one slot of each image, chosen at random; its activeness is the
variance of a pixel over the pictures that result, averaged over pixels, channels and images (Difference 40). A
disentangled code has few active dimensions.

Leakage: when one number of one slot is changed, an edit should stay where the edited object is. The score is the mean
change of a pixel outside the slot's mask, before and after the edit, divided by the mean change inside: 0 is clean, 1
is no object at all. Means are over all numbers of all slots, so those that do little count little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.inference import infer_scenes
from emorl.models.base import Model
from emorl.types import Decomposition, Progress, silent

VALUES = 6  # places between the ends of a dimension's range, ends included
ACTIVE = 0.05  # share of the largest activeness above which a dimension counts as active
LEAST_CHANGE = 1e-3  # mean change inside the mask below which an edit did nothing and says nothing
LEAST_MASK = 0.01  # share of the image that a slot must own to be edited


@dataclass(frozen=True)
class Activeness:
    """Mean image variance by dimension, and the ranges that were gone through."""

    values: Tensor  # (D,)
    ranges: Tensor  # (2, D), least and greatest

    @property
    def order(self) -> list[int]:
        """All dimensions, the most active first."""
        return [int(d) for d in self.values.argsort(descending=True)]

    @property
    def active(self) -> list[int]:
        """Those that count as active, the most active first."""
        return [d for d in self.order if self.values[d] > ACTIVE * self.values.max()]


def slots_of(model: Model, scenes: SceneDataset, *, images: int, seed: int = 0) -> Tensor:
    """Slots (N, K, D) of the first N = `images` scenes, fewer if there are not so many."""
    if images < 1 or len(scenes) < 1:
        raise UserError("At least one image is needed to see what slots stand for.")
    found = infer_scenes(model, scenes, images=images, seed=seed, means=True)
    return torch.cat([answer.slots for _, answer in found])


def ranges_of(slots: Tensor) -> Tensor:
    """Least and greatest value of each dimension over all `slots` (N, K, D). Returns (2, D)."""
    flat = slots.flatten(0, 1)
    return torch.stack([flat.amin(dim=0), flat.amax(dim=0)])


def latent_ranges(model: Model, scenes: SceneDataset, *, images: int = 100) -> Tensor:
    """Least and greatest value of each dimension of a slot over some scenes, (2, D)."""
    return ranges_of(slots_of(model, scenes, images=images))


def widest(ranges: Tensor, count: int) -> list[int]:
    """The dimensions that vary most from slot to slot: a cheap guess at the active ones."""
    return [int(d) for d in (ranges[1] - ranges[0]).argsort(descending=True)[:count]]


def swept(slots: Tensor, k: int, d: int, values: Tensor) -> Tensor:
    """Copies of `slots` (K, D), one for each of V `values` of dimension `d` of slot `k`. Returns (V, K, D)."""
    copies = slots.expand(len(values), -1, -1).clone()
    copies[:, k, d] = values
    return copies


@torch.no_grad()
def activeness(
    model: Model,
    scenes: SceneDataset,
    *,
    images: int = 100,
    seed: int = 0,
    progress: Progress = silent,
) -> Activeness:
    """Activeness of every dimension over the first `images` scenes; `seed` chooses the slots."""
    slots = slots_of(model, scenes, images=images, seed=seed)
    ranges = ranges_of(slots)
    N, K, D = slots.shape
    chosen = torch.randint(K, (N,), generator=torch.Generator().manual_seed(seed)).tolist()
    share = torch.linspace(0, 1, VALUES, device=slots.device)[:, None]
    places = ranges[0] + share * (ranges[1] - ranges[0])  # (VALUES, D)
    total = torch.zeros(D, device=slots.device)
    for n, k in enumerate(chosen):
        copies = torch.cat([swept(slots[n], k, d, places[:, d]) for d in range(D)])
        pictures = torch.cat([model.decode(part).image for part in copies.split(32)])
        total += pictures.unflatten(0, (D, VALUES)).var(dim=1).mean(dim=(1, 2, 3))
        progress(n + 1, N)
    return Activeness((total / N).cpu(), ranges.cpu())


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
        """Change outside as a share of that inside."""
        return self.outside / self.inside


@dataclass(frozen=True)
class Leakage:
    """How far edits reach: means over all that did something."""

    edits: tuple[Edit, ...]

    @property
    def image(self) -> float:
        """Change of the image outside of masks, as a share of that inside."""
        return self.by_inside(sum(edit.outside for edit in self.edits))

    @property
    def others(self) -> float:
        """The same of what the other slots contribute."""
        return self.by_inside(sum(edit.others for edit in self.edits))

    def by_inside(self, change: float) -> float:
        """A sum of changes as a share of those inside; NaN without edits."""
        return change / sum(edit.inside for edit in self.edits) if self.edits else float("nan")

    def typical(self, scene: int) -> Edit | None:
        """Of the tenth of a scene's edits that change most, the one in the middle between leaking least and most."""
        mine = sorted(
            (edit for edit in self.edits if edit.scene == scene), key=lambda edit: -edit.inside - edit.outside
        )
        strong = sorted(mine[: 1 + len(mine) // 10], key=lambda edit: edit.leaked)
        return strong[len(strong) // 2] if strong else None


@torch.no_grad()
def leakage(model: Model, scenes: SceneDataset, *, images: int = 8) -> Leakage:
    """Sets each number of every slot that owns something, in the first `images` scenes, to the ends of its range."""
    slots = slots_of(model, scenes, images=images)
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
