"""UNet: the network that looks at whole images in MONet's attention and under GENESIS-V2's heads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.nn.mlp import mlp


class UNet(nn.Module):
    """Blocks at halved sizes, an MLP over everything at the smallest, and back up, joined with features of each size.

    Larger images get more blocks, so the smallest size has four to eight pixels a side. Images whose size does not
    halve evenly are padded at the right and at the bottom, and the result is cropped.
    """

    def __init__(
        self,
        image_size: int,
        inputs: int,
        *,
        channels: int,
        groups: int | None = None,
        hidden_size: int = 128,
    ) -> None:
        """`groups` of channels share their norm; None norms each channel of each image alone."""
        super().__init__()
        blocks = image_size.bit_length() - 2  # ⌊log₂ size⌋ - 1: four for 35, five for 64 and 96, six for 128
        self.image_size = image_size
        self.padding = -image_size % 2 ** (blocks - 1)
        C = channels
        down = [inputs, *[C] * (blocks - 3), 2 * C, 2 * C, 2 * C]
        up = [2 * C, 2 * C, 2 * C, *[C] * (blocks - 2)]
        self.down = nn.ModuleList(block(down[i], down[i + 1], groups) for i in range(blocks))
        self.up = nn.ModuleList(block(up[i] + down[blocks - i], up[i + 1], groups) for i in range(blocks))
        self.side = (image_size + self.padding) // 2 ** (blocks - 1)
        flat = 2 * C * self.side**2
        self.bottleneck = nn.Sequential(
            mlp(flat, hidden_size, hidden_size, flat, activation=nn.ReLU), nn.ReLU(inplace=True)
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Turns `x` (B, inputs, H, W) into features (B, C, H, W), not negative."""
        x = F.pad(x, (0, self.padding, 0, self.padding), mode="replicate") if self.padding else x
        x = x.contiguous(memory_format=torch.channels_last)
        seen: list[Tensor] = []
        for down in self.down:
            x = down(x[..., ::2, ::2] if seen else x)
            seen.append(x)
        x = self.bottleneck(x.flatten(1)).unflatten(1, (-1, self.side, self.side))
        for up in self.up:
            skipped = seen.pop()
            x = F.interpolate(x, size=skipped.shape[-2:])  # nearest; nothing happens at the smallest size
            x = up(torch.cat([x, skipped], dim=1))
        return x[..., : self.image_size, : self.image_size]


def block(size_in: int, size_out: int, groups: int | None) -> nn.Sequential:
    """A 3x3 convolution, a norm and ReLU. One group per channel is instance normalisation."""
    return nn.Sequential(
        nn.Conv2d(size_in, size_out, 3, padding=1, bias=False),
        nn.GroupNorm(size_out if groups is None else groups, size_out),
        nn.ReLU(inplace=True),
    )
