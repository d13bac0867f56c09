"""Latent traversals, as in the paper's Figure 9: one dimension of one slot goes through its range, the rest stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.evaluation.latents import swept
from emorl.models.base import Model
from emorl.panels import Panels, to_pixels
from emorl.types import Decomposition


@dataclass(frozen=True)
class Traversal:
    """The image of one scene for several values of several dimensions, one at a time."""

    slot: int
    dims: tuple[int, ...]
    pictures: Tensor  # (dimensions, values, 3, H, W)


def check_place(found: Decomposition, slot: int | None, dims: Sequence[int]) -> None:
    """Raises UserError for a slot or a dimension that `found` does not have."""
    K, D = found.slots.shape[1:]
    if slot is not None and not 0 <= slot < K:
        raise UserError(f"There is no slot {slot}: this model's slots are 0 to {K - 1}.")
    if unknown := [d for d in dims if not 0 <= d < D]:
        raise UserError(f"There is no dimension {unknown[0]}: a slot's dimensions are 0 to {D - 1}.")


@torch.no_grad()
def traverse(
    model: Model,
    found: Decomposition,
    ranges: Tensor,
    dims: Sequence[int],
    *,
    slot: int | None = None,
    values: int = 9,
) -> Traversal:
    """Moves each of `dims` of one slot of `found`, a decomposition of one image, through its range (2, D)."""
    check_place(found, slot, dims)
    slot = most_salient(found) if slot is None else slot
    if not dims:
        raise UserError("Name at least one dimension to go through: --dims 3 7")
    share = torch.linspace(0, 1, values)[:, None]
    places = (ranges[0] + share * (ranges[1] - ranges[0])).to(found.slots)  # (values, D)
    pictures = [model.decode(swept(found.slots[0], slot, d, places[:, d])).image for d in dims]
    return Traversal(slot, tuple(dims), torch.stack(pictures).cpu())


def most_salient(found: Decomposition) -> int:
    """The slot whose part of the image differs most from the image's median colour, which a background is close to."""
    median = found.image[0].flatten(1).median(dim=1).values  # (3,)
    contrast = (found.components[0] - median[:, None, None]).square()
    return int((found.masks[0] * contrast).sum(dim=(1, 2, 3)).argmax())


def traversal_panels(traversal: Traversal) -> Panels:
    """One row for each dimension, from its least value on the left to its greatest."""
    rows = [[to_pixels(picture) for picture in row] for row in traversal.pictures]
    return Panels(rows, [f"z{d}" for d in traversal.dims])


def traversal_frames(traversal: Traversal) -> list[Panels]:
    """All dimensions side by side, moving forth and back."""
    titles = [f"z{d}" for d in traversal.dims]
    forth = list(range(traversal.pictures.shape[1]))
    return [
        Panels([[to_pixels(row[at]) for row in traversal.pictures]], titles=titles)
        for at in [*forth, *forth[-2:0:-1]]
    ]
