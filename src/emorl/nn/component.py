"""ComponentEncoder: what a mask shows of an image becomes the parameters of a slot's posterior (MONet, GENESIS)."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from emorl.nn.mlp import mlp


class ComponentEncoder(nn.Module):
    """Four 3x3 convolutions, each halving the size, and an MLP; one pass for all slots."""

    def __init__(
        self,
        image_size: int,
        output_size: int,
        *,
        channels: int = 32,
        hidden_size: int = 256,
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        sizes = [4, channels, channels, 2 * channels, 2 * channels]
        layers: list[nn.Module] = []
        for size_in, size_out in pairwise(sizes):
            layers += [nn.Conv2d(size_in, size_out, 3, stride=2, padding=1), activation()]
        self.convolutions = nn.Sequential(*layers)
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        side = math.ceil(image_size / 16)
        self.mlp = mlp(2 * channels * side**2, hidden_size, output_size, activation=activation)

    def forward(self, x: Tensor, log_masks: Tensor) -> Tensor:
        """Encodes `x` (B, 3, H, W) as each of `log_masks` (B, K, 1, H, W) shows it. Returns (B, K, output size)."""
        images = x.unsqueeze(1).expand(-1, log_masks.shape[1], -1, -1, -1)
        inputs = torch.cat([log_masks, images], dim=2).flatten(0, 1)
        features = self.convolutions(inputs.contiguous(memory_format=torch.channels_last))
        encoded: Tensor = self.mlp(features.flatten(1)).unflatten(0, log_masks.shape[:2])
        return encoded
