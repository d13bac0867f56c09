"""Pictures of any size for models that take squares of one size, and results back at the picture's own size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from emorl.data.base import Array

# crop: the largest square in the middle. pad: all of the picture, in the middle of a square of the colour of its edge.
# stretch: all of it, its sides made equal.
Fit = Literal["crop", "pad", "stretch"]


@dataclass(frozen=True)
class Place:
    """Where the square that a model sees lies in a picture of `height` x `width` pixels."""

    height: int
    width: int
    fit: Fit = "crop"

    @property
    def side(self) -> int:
        """The side that the square has in pixels of the picture; of a stretched one the longer side."""
        return min(self.height, self.width) if self.fit == "crop" else max(self.height, self.width)

    @property
    def seen(self) -> tuple[int, int, int, int]:
        """The part of the picture that the model sees: left, top, and the first column and row beyond it."""
        if self.fit != "crop":
            return 0, 0, self.width, self.height
        left, top = (self.width - self.side) // 2, (self.height - self.side) // 2
        return left, top, left + self.side, top + self.side

    @property
    def margins(self) -> tuple[int, int]:
        """Columns and rows between the left upper corner of the padded square and that of the picture."""
        return (self.side - self.width) // 2, (self.side - self.height) // 2

    @property
    def square(self) -> tuple[int, int, int, int]:
        """The square that the model sees, in pixels of the picture: left, top, and the first column and row beyond it.
        A padded one begins before the picture and ends after it.
        """
        if self.fit != "pad":
            return self.seen
        left, top = self.margins
        return -left, -top, self.side - left, self.side - top

    def restore(self, squares: Tensor) -> Tensor:
        """Results (..., side, side) of the square, as (..., h, w) of the part of the picture that was seen."""
        match self.fit:
            case "crop":
                return squares
            case "pad":
                left, top = self.margins
                return squares[..., top : top + self.height, left : left + self.width]
        flat = squares.reshape(1, -1, self.side, self.side)
        shrunk: Tensor = F.interpolate(flat, (self.height, self.width), mode="bilinear", antialias=True)
        return shrunk.reshape(*squares.shape[:-2], self.height, self.width)

    def on_picture(self, seen: Array, fill: int) -> Array:
        """An array (..., h, w) of the seen part on all of the picture, (..., height, width), `fill` around it."""
        left, top, right, bottom = self.seen
        whole = np.full((*seen.shape[:-2], self.height, self.width), fill, dtype=seen.dtype)
        whole[..., top:bottom, left:right] = seen
        return whole


def fitted(pixels: Array, size: int, fit: Fit = "crop", *, smooth: bool = True) -> Array:
    """Makes a square of `size` pixels a side of an image (H, W, 3), or of ids (H, W), which are not `smooth`."""
    place = Place(pixels.shape[0], pixels.shape[1], fit)
    left, top, right, bottom = place.seen
    part = pixels[top:bottom, left:right]
    if fit == "pad":
        edge = edge_color(pixels) if smooth else 0
        part = np.full((place.side, place.side, *pixels.shape[2:]), edge, dtype=pixels.dtype)
        left, top = place.margins
        part[top : top + place.height, left : left + place.width] = pixels
    return resized(part, size, size, smooth=smooth)


def edge_color(pixels: Array) -> Array:
    """The mean colour along the edge of an image (H, W, 3)."""
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    mean: Array = edge.mean(axis=0).round().astype(pixels.dtype)
    return mean


def resized(pixels: Array, height: int, width: int, *, smooth: bool = True) -> Array:
    """An image (H, W, 3), or ids (H, W), at another size; `smooth` is for images."""
    if pixels.shape[:2] == (height, width):
        return pixels
    method = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), method))
