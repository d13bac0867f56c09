"""A lattice of pixels: one pixel of each block of an image, so that a training step need not paint all of them.

Each block gives one pixel, drawn anew, that counts for all pixels of its block. The mean over all lattices is the sum
over all pixels, so a loss on a lattice is unbiased; one pixel per block varies less than pixels drawn anywhere.
Outside training AllPixels takes its place, so that models need not tell the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Lattice:
    """h x w pixels of a square image: which ones, and how many pixels each of them stands for."""

    rows: Tensor  # (h, w)
    columns: Tensor  # (h, w)
    weights: Tensor  # (h, w), floats
    size: int  # side of the image

    def of(self, images: Tensor) -> Tensor:
        """The lattice's pixels of `images` (..., H, W), as small images (..., h, w)."""
        return images[..., self.rows, self.columns]

    def coordinates(self, like: Tensor) -> Tensor:
        """Where the pixels are, (h, w, 2), as `pixel_centres` has it."""
        return centres(torch.stack([self.rows, self.columns], dim=-1).to(like.dtype), self.size)


class AllPixels:
    """Every pixel of an image, each once: what a pass looks at if not at a lattice."""

    weights = None  # all alike

    def of(self, images: Tensor) -> Tensor:
        """The `images` themselves."""
        return images

    def coordinates(self, like: Tensor) -> None:
        """None, which every decoder takes for all pixels."""


Pixels = Lattice | AllPixels


def pixel_centres(size: int, like: Tensor) -> Tensor:
    """Row and column of every pixel's centre, (size, size, 2), in an image that reaches from -1 to 1.

    The centre of a pixel is the centre of the middle one of the 3 x 3 that take its place at three times the size.
    """
    line = centres(torch.arange(size, device=like.device, dtype=like.dtype), size)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1)


def centres(indices: Tensor, size: int) -> Tensor:
    """The centres of the pixels with these indices along a side of `size` pixels, which reaches from -1 to 1.

    A quotient of whole numbers, so that places that are equal at two sizes are equal to the last bit.
    """
    return (2 * indices + 1) / size - 1


def draw_lattice(size: int, block: int, device: torch.device) -> Lattice:
    """Draws one pixel of each block of `block` x `block` pixels; blocks at two borders may be smaller."""
    starts, lengths = (t.to(device) for t in blocks(size, block))
    count = len(starts)
    height, width = lengths[:, None].expand(count, count), lengths.expand(count, count)
    down, right = torch.rand(2, count, count, device=device).unbind()
    rows = starts[:, None] + (down * height).long()
    columns = starts + (right * width).long()
    return Lattice(rows, columns, (height * width).float(), size)


def middle_lattice(size: int, block: int, device: torch.device) -> Lattice:
    """The pixel in the middle of each block: always the same, for inference that looks at a lattice."""
    starts, lengths = (t.to(device) for t in blocks(size, block))
    middle = starts + lengths // 2
    rows, columns = torch.meshgrid(middle, middle, indexing="ij")
    return Lattice(rows, columns, (lengths[:, None] * lengths).float(), size)


@cache
def blocks(size: int, block: int) -> tuple[Tensor, Tensor]:
    """First pixel and length of each block along one side."""
    starts = torch.arange(0, size, block)
    return starts, (size - starts).clamp_max(block)
