"""Gated convolutions, and the two networks of GENESIS made of them: an image to features, a latent to a mask.

Both are plain stacks that end, or begin, with a kernel as large as the map that is left, so no position is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Norm = Literal["batch", "instance"]


class GatedConv(nn.Module):
    """One half of the outputs of a convolution, gated by the other half; each channel may be normalised first."""

    def __init__(self, conv: nn.Conv2d | nn.ConvTranspose2d, norm: Norm | None = None) -> None:
        super().__init__()
        self.conv = conv
        self.batch_norm = nn.BatchNorm2d(conv.out_channels) if norm == "batch" else None
        self.instance_norm = nn.InstanceNorm2d(conv.out_channels, affine=True) if norm == "instance" else None

    def forward(self, x: Tensor, *, learn: bool) -> Tensor:
        """Batch statistics are used, and remembered, only where the network is to `learn`.

        Otherwise the remembered ones are used: inference changes no state, and the result for an image does not
        depend on the others in its batch.
        """
        x = self.conv(x)
        if self.batch_norm is not None:
            n = self.batch_norm
            x = F.batch_norm(
                x, n.running_mean, n.running_var, n.weight, n.bias, learn, n.momentum or 0.0, n.eps
            )
        if self.instance_norm is not None:
            x = self.instance_norm(x)
        return F.glu(x, dim=1)


class GatedEncoder(nn.Module):
    """5x5 gated convolutions, then one over all that is left: an image becomes a vector."""

    def __init__(
        self, channels: int, *, size_out: int, image_size: int, strides: Sequence[int], norm: Norm
    ) -> None:
        super().__init__()
        c, side = channels, image_size
        layers = []
        for (size_in, size), stride in zip(pairwise([3, c, c, 2 * c, 2 * c, 2 * c]), strides, strict=True):
            layers.append(GatedConv(nn.Conv2d(size_in, 2 * size, 5, stride=stride, padding=2), norm))
            side = math.ceil(side / stride)
        layers.append(GatedConv(nn.Conv2d(2 * c, 2 * size_out, side)))
        self.layers = nn.ModuleList(layers)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor, *, learn: bool) -> Tensor:
        """Turns `x` (B, 3, H, W) into features (B, C)."""
        x = x.contiguous(memory_format=torch.channels_last)
        for layer in self.layers:
            x = layer(x, learn=learn)
        return x.flatten(1)


class GatedDecoder(nn.Module):
    """The encoder's mirror image: a vector becomes one number per pixel."""

    def __init__(
        self, channels: int, *, size_in: int, image_size: int, strides: Sequence[int], norm: Norm
    ) -> None:
        super().__init__()
        c, side = channels, image_size
        for stride in strides:
            side = math.ceil(side / stride)
        layers = [GatedConv(nn.ConvTranspose2d(size_in, 4 * c, side))]
        for (wide, narrow), stride in zip(pairwise([2 * c, 2 * c, c, c, c, c]), strides[::-1], strict=True):
            conv = nn.ConvTranspose2d(
                wide, 2 * narrow, 5, stride=stride, padding=2, output_padding=stride - 1
            )
            layers.append(GatedConv(conv, norm))
        self.layers = nn.ModuleList(layers)
        self.last = nn.Conv2d(c, 1, 1)
        self.image_size = image_size
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, z: Tensor, *, learn: bool) -> Tensor:
        """Renders `z` (N, D). Returns (N, 1, H, W); where strides do not divide the size, the margin is cut off."""
        x = z[..., None, None]
        for layer in self.layers:
            x = layer(x, learn=learn)
        return self.last(x)[..., : self.image_size, : self.image_size]  # type: ignore[no-any-return]
