"""Activeness: how much the image changes when one dimension of one slot does. A disentangled code has few active ones.

Dimension d is moved through its range in one slot of each image, chosen at random; its activeness is the variance of a
pixel over the pictures that result, averaged over pixels, channels and images (Difference 40).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.data.loading import in_order
from emorl.errors import UserError
from emorl.models.base import Model
from emorl.probability import noise_from, noise_per_image

VALUES = 6  # places between the ends of a dimension's range, ends included
ACTIVE = 0.05  # share of the largest activeness above which a dimension counts as active


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
    device = next(model.parameters()).device
    found = []
    for indices, batch in in_order(scenes, 32, limit=min(images, len(scenes))):
        with noise_from(noise_per_image([seed * 1_000_003 + index for index in indices])):
            found.append(model.decompose(batch.image.to(device)).slots)
    return torch.cat(found)


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
    progress: Callable[[int, int], None] = lambda done, total: None,
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
