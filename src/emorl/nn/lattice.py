"""Some pixels of an image, so that a training step need not paint all of them.

A lattice has one pixel of each block, drawn anew, that counts for all pixels of its block. The mean over all lattices
is the sum over all pixels, so a loss on a lattice is unbiased; one pixel per block varies less than pixels drawn
anywhere. Where outlines matter most, BusyPixels are drawn more often where an image changes, and count for less there,
which is unbiased too. Outside training AllPixels takes their place, so that models need not tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
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

    def part(self, images: slice) -> Lattice:
        """The pixels of some images of a batch: the same for all."""
        return self


@dataclass(frozen=True)
class BusyPixels:
    """h x w pixels of each of B square images, others for each, and how many pixels each of them stands for."""

    indices: Tensor  # (B, h, w), pixels counted row by row
    weights: Tensor  # (B, 1, h, w), floats
    size: int  # side of the images

    def of(self, images: Tensor) -> Tensor:
        """These pixels of `images` (B, C, H, W), as small images (B, C, h, w)."""
        indices = self.indices.flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
        found: Tensor = images.flatten(2).gather(2, indices).unflatten(2, self.indices.shape[1:])
        return found

    def coordinates(self, like: Tensor) -> Tensor:
        """Where the pixels are, (B, h, w, 2), as `pixel_centres` has it."""
        rows, columns = self.indices // self.size, self.indices % self.size
        return centres(torch.stack([rows, columns], dim=-1).to(like.dtype), self.size)

    def part(self, images: slice) -> BusyPixels:
        """The pixels of some images of a batch."""
        return BusyPixels(self.indices[images], self.weights[images], self.size)


class AllPixels:
    """Every pixel of an image, each once: what a pass looks at if not at a lattice."""

    weights = None  # all alike

    def of(self, images: Tensor) -> Tensor:
        """The `images` themselves."""
        return images

    def coordinates(self, like: Tensor) -> None:
        """None, which every decoder takes for all pixels."""

    def part(self, images: slice) -> AllPixels:
        """All pixels of some images of a batch."""
        return self


Pixels = Lattice | BusyPixels | AllPixels


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


def draw_busy(x: Tensor, block: int, share: float) -> BusyPixels:
    """Draws as many pixels of each of the images `x` (B, C, H, W) as a lattice has, a `share` of them where it changes.

    A pixel is drawn as often as its neighbours differ from each other; the other pixels are drawn anywhere. Draws are
    spread evenly over the rows, and each counts for as many pixels as are drawn so rarely.
    """
    size, side = x.shape[-1], -(-x.shape[-1] // block)
    change = range_around(x).flatten(1)
    anywhere = torch.full_like(change, 1 / size**2)
    total = change.sum(dim=1, keepdim=True)
    busy = torch.where(total > 0, change / total.clamp_min(1e-12), anywhere)
    chance = (1 - share) * anywhere + share * busy  # sums to one
    places = (torch.arange(side**2, device=x.device) + torch.rand(len(x), side**2, device=x.device)) / side**2
    indices = torch.searchsorted(chance.cumsum(dim=1), places.to(chance.dtype)).clamp_max(size**2 - 1)
    weights = 1 / (side**2 * chance.gather(1, indices))
    return BusyPixels(indices.unflatten(1, (side, side)), weights.unflatten(1, (1, side, side)), size)


def range_around(x: Tensor) -> Tensor:
    """Largest minus smallest value among each pixel of `x` (B, C, H, W) and its eight neighbours, summed over C."""
    largest, smallest = (sign * F.max_pool2d(sign * x, 3, stride=1, padding=1) for sign in (1, -1))
    return (largest - smallest).sum(dim=1)


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
