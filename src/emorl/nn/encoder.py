"""ImageEncoder: pixels become tokens that know what and where they are (lines 2-3 of Algorithm 1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from emorl.nn.mlp import mlp
from emorl.nn.position import PositionProjection

Layout = Literal["plain", "pyramid"]


class ImageEncoder(nn.Module):
    """Four convolutions, a position, a layer norm and an MLP per token.

    "plain": 5x5 convolutions of one width, as published. "pyramid": two of them halve the size, so that there are a
    sixteenth of the tokens and each of them sees more of the image.
    """

    def __init__(
        self, channels: int, *, layout: Layout = "plain", stride: int = 1, frequencies: int = 0
    ) -> None:
        """`stride` is that of the first convolution of "plain"."""
        super().__init__()
        is_plain = layout == "plain"
        self.strides = (stride, 1, 1, 1) if is_plain else (2, 2, 1, 1)
        kernels = (5, 5, 5, 5) if is_plain else (5, 3, 3, 3)
        widths = (3, channels if is_plain else channels // 2, channels, channels, channels)
        layers: list[nn.Module] = []
        for l, (kernel, step) in enumerate(zip(kernels, self.strides, strict=True)):
            conv = nn.Conv2d(widths[l], widths[l + 1], kernel, stride=step, padding=kernel // 2)
            layers += [conv, nn.ReLU(inplace=True)]
        self.convolutions = nn.Sequential(*layers)
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.position = PositionProjection(channels, frequencies=frequencies)
        self.norm = nn.LayerNorm(channels)
        self.token_mlp = mlp(channels, channels, channels, activation=nn.ReLU)

    def forward(self, x: Tensor) -> Tensor:
        """Turns `x` (B, 3, H, W) in [0, 1] into tokens (B, N, C)."""
        return self.tokens(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """What is seen at each place of the grid, (B, C, h, w)."""
        x = (2 * x - 1).contiguous(memory_format=torch.channels_last)  # Difference 28
        features: Tensor = self.convolutions(x)
        return features

    def tokens(self, features: Tensor) -> Tensor:
        """Features (B, C, h, w) together with where they are, (B, N, C)."""
        placed = features + self.position(*features.shape[-2:])
        tokens: Tensor = self.token_mlp(self.norm(placed.flatten(2).mT))
        return tokens

    def grid(self, image_size: int) -> int:
        """Side of the square of tokens."""
        for stride in self.strides:
            image_size = (image_size - 1) // stride + 1
        return image_size
