"""Guide: how slots change on average while what they show is moved, learned from slots of other scenes, without labels.

A decoder without a frame paints only what it has learned: off the path that slots of real scenes take, an object loses
its shape. So z is described as a smooth function of where its object is seen plus what is left, which is the object's
own. To move an object, the function's value at the old place is replaced by that at the new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.data.base import SceneDataset
from emorl.evaluation.inference import infer
from emorl.explorer.board import Board
from emorl.models.base import Model
from emorl.nn.pixels import PixelDecoder

SCENES, AT_ONCE = 64, 16
LEAST_OBJECTS = 60  # for ten numbers for each dimension
LARGEST = 0.5  # spread, in image units: what is larger is background
RIDGE = 0.1
CORRECTIONS = 2  # times that the place is looked at and the rest of the way is gone


@dataclass(frozen=True)
class Guide:
    """The average slot at each place."""

    weights: Tensor  # (features, D)
    least: Tensor  # (2,), the places that were seen
    greatest: Tensor

    def moved(self, place_of: Callable[[Tensor], Tensor], z: Tensor, by: Tensor) -> Tensor:
        """Returns `z` (D,) with its object moved by `by` (2,); `place_of` says where a slot's object is seen, (2,)."""
        here = place_of(z)
        goal = self.within(here + by)
        aim, moved = goal, z
        for _ in range(1 + CORRECTIONS):
            moved = z + (features(self.within(aim)) - features(here)) @ self.weights
            aim = aim + goal - place_of(moved)
        return moved

    def within(self, place: Tensor) -> Tensor:
        """The nearest place at which objects were seen."""
        return torch.minimum(torch.maximum(place, self.least), self.greatest)


def features(places: Tensor) -> Tensor:
    """Smooth functions of `places` (..., 2), (..., 9)."""
    down, right = places.unbind(dim=-1)
    waves = [torch.sin(math.pi * down), torch.sin(math.pi * right)]
    powers = [down, right, down**2, right**2, down * right, down**3, right**3]
    return torch.stack([*powers, *waves], dim=-1)


@torch.no_grad()
def learn_guide(model: Model, scenes: SceneDataset) -> Guide | None:
    """Looks at the last scenes. None for models whose slots have a frame, and where too few objects are seen."""
    if isinstance(model.decoder, PixelDecoder):
        return None
    slots, places = [], []
    indices = range(max(0, len(scenes) - SCENES), len(scenes))
    for first in range(indices.start, indices.stop, AT_ONCE):
        chosen = range(first, min(first + AT_ONCE, indices.stop))
        images = torch.stack([scenes[n].image for n in chosen]).to(model.device)
        found = infer(model, images, list(chosen), means=True).steps[-1].slots
        for image, own in zip(images, found, strict=True):
            board = Board(model, image, own)
            for k, z in enumerate(own):
                place = board.place(k)
                if place is not None and place.size < LARGEST:
                    slots.append(z)
                    places.append([place.down, place.right])
    if len(slots) < LEAST_OBJECTS:
        return None
    where = torch.tensor(places).to(model.device)
    known = torch.cat([where.new_ones(len(where), 1), features(where)], dim=1)
    square = known.T @ known + RIDGE * torch.eye(known.shape[1], device=known.device)
    weights = torch.linalg.solve(square, known.T @ torch.stack(slots))
    return Guide(weights[1:], where.amin(dim=0), where.amax(dim=0))
