"""ImageEncoder: pixels become tokens that know what and where they are (lines 2-3 of Algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from emorl.nn.mlp import mlp
from emorl.nn.position import PositionProjection


class ImageEncoder(nn.Module):
    """Four 5x5 convolutions, a position, a layer norm and an MLP per token."""

    def __init__(self, channels: int, *, stride: int = 1, frequencies: int = 0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for l in range(4):
            size_in, step = (3, stride) if l == 0 else (channels, 1)
            layers += [nn.Conv2d(size_in, channels, 5, stride=step, padding=2), nn.ReLU(inplace=True)]
        self.convolutions = nn.Sequential(*layers)
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.position = PositionProjection(channels, frequencies=frequencies)
        self.norm = nn.LayerNorm(channels)
        self.token_mlp = mlp(channels, channels, channels, activation=nn.ReLU)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Turns `x` (B, 3, H, W) in [0, 1] into tokens (B, N, C), N = HW / stride²."""
        x = (2 * x - 1).contiguous(memory_format=torch.channels_last)  # deviation 28
        features = self.convolutions(x)
        features = features + self.position(*features.shape[-2:])
        tokens: Tensor = self.token_mlp(self.norm(features.flatten(2).mT))
        return tokens

    def grid(self, image_size: int) -> int:
        """Side of the square of tokens."""
        return (image_size - 1) // self.stride + 1
