"""Pictures of any size taken apart: made square for the model, and results brought back to the picture's own size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from emorl.data.base import Array
from emorl.data.fit import Fit, Place, fitted, resized
from emorl.evaluation.inference import infer
from emorl.models.base import Model
from emorl.objects import NOBODY, WELL_EXPLAINED, Table, explained_share, moved, object_table, owners
from emorl.types import Decomposition, array

LARGEST = 1024  # longer side of results: masks and components of a photograph at full size fill gigabytes
AT_ONCE = 16  # pictures to infer together


@dataclass(frozen=True)
class TakenApart:
    """One picture and what a model makes of the part of it that it sees."""

    size: tuple[int, int]  # height and width of the picture itself
    place: Place  # of the seen part, in the picture at the size of the results
    picture: Array  # (3, h, w) in [0, 1], the seen part at the size of the results
    parts: Decomposition  # of the seen part at that size; B is 1

    @property
    def explained(self) -> float:
        """How much of the seen part is explained, from 0, no better than one colour, to 1."""
        return explained_share(self.picture, array(self.parts.image[0]))

    @property
    def is_explained(self) -> bool:
        """Whether the objects can be trusted at all."""
        return self.explained >= WELL_EXPLAINED

    @property
    def objects(self) -> Table:
        """The objects, as `object_table` has them, in pixels of the picture itself; shares are of the seen part."""
        table = object_table(array(self.parts.masks[0, :, 0]), self.picture)
        left, top, _, _ = self.place.seen
        down, right = self.size[0] / self.place.height, self.size[1] / self.place.width
        return moved(table, left=left * right, top=top * down, across=right, down=down)

    @property
    def owners(self) -> Array:
        """The slot that owns each pixel of the picture itself, (H, W), NOBODY where none does or none has looked."""
        owned = self.place.on_picture(owners(array(self.parts.masks[0, :, 0])), NOBODY)
        return resized(owned.astype(np.int16), *self.size, smooth=False)


def take_apart(
    model: Model,
    pictures: Iterable[Array],
    *,
    fit: Fit = "crop",
    seed: int = 0,
    largest: int = LARGEST,
    **options: Any,
) -> Iterator[TakenApart]:
    """Takes pictures (H, W, 3), uint8, apart; a picture's result depends on no other. `options` are those of `infer`.

    The results of a picture have its own size, or that with a longer side of `largest` if it is larger.
    """
    device, size = next(model.parameters()).device, model.config.image_size
    waiting = iter(pictures)
    while some := list(islice(waiting, AT_ONCE)):
        squares = [fitted(pixels, size, fit) for pixels in some]
        x = torch.from_numpy(np.stack(squares)).to(device).permute(0, 3, 1, 2).float() / 255
        found = infer(model, x, [seed] * len(some), **options).steps[-1]
        for b, pixels in enumerate(some):
            yield at_own_size(model, pixels, found[b], fit, largest)


def at_own_size(model: Model, pixels: Array, parts: Decomposition, fit: Fit, largest: int) -> TakenApart:
    """What a model found on the square made of a picture, as a result of the picture. It may paint it anew."""
    height, width = shape_within(pixels.shape[:2], largest)
    place = Place(height, width, fit)
    with torch.no_grad():
        painted = parts if place.side == model.config.image_size else model.enlarged(parts, place.side)
    restored = replace(
        painted, masks=place.restore(painted.masks), components=place.restore(painted.components)
    )
    left, top, right, bottom = place.seen
    seen = resized(pixels, height, width)[top:bottom, left:right]
    return TakenApart(pixels.shape[:2], place, seen.transpose(2, 0, 1).astype(np.float32) / 255, restored)


def shape_within(shape: Sequence[int], largest: int) -> tuple[int, int]:
    """Height and width of a picture, made smaller if one of them is more than `largest`."""
    height, width = shape
    factor = min(1.0, largest / max(height, width))
    return max(1, round(height * factor)), max(1, round(width * factor))
