"""Where a pixel is: fixed features of its coordinates, projected onto channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def position_features(H: int, W: int, frequencies: int, like: Tensor) -> Tensor:
    """Distances to the four borders, then sines and cosines of both coordinates. Returns (H, W, 4 + 4F).

    Harmonics k = 1..F have k half-waves over the image, so the finest detail they resolve is size / F.
    """
    down = torch.linspace(0, 1, H, device=like.device, dtype=like.dtype)[:, None].expand(H, W)
    right = torch.linspace(0, 1, W, device=like.device, dtype=like.dtype).expand(H, W)
    harmonics = math.pi * torch.arange(1, frequencies + 1, device=like.device, dtype=like.dtype)
    angles = torch.cat([down[..., None] * harmonics, right[..., None] * harmonics], dim=-1)
    ramps = torch.stack([down, 1 - down, right, 1 - right], dim=-1)
    return torch.cat([ramps, angles.sin(), angles.cos()], dim=-1)


class PositionProjection(nn.Module):
    """A learned linear map of the position features; `frequencies` = 0 gives the paper's four ramps."""

    def __init__(self, channels: int, *, frequencies: int = 0) -> None:
        super().__init__()
        self.frequencies = frequencies
        self.project = nn.Linear(4 + 4 * frequencies, channels)

    def forward(self, H: int, W: int) -> Tensor:
        """Returns (1, C, H, W): computed once, whatever the number of images and slots."""
        features: Tensor = self.project(position_features(H, W, self.frequencies, like=self.project.weight))
        return features.permute(2, 0, 1).unsqueeze(0)

    def factors(self, H: int, W: int) -> tuple[Tensor, Tensor]:
        """Fixed features (1, F, H, W) and weights (C, F) whose product is `forward`; the last feature is constant."""
        features = position_features(H, W, self.frequencies, like=self.project.weight)
        features = torch.cat([features, features.new_ones(H, W, 1)], dim=-1).permute(2, 0, 1).unsqueeze(0)
        return features, torch.cat([self.project.weight, self.project.bias.unsqueeze(1)], dim=1)


class Coordinates(nn.Module):
    """Two channels from -1 to 1 beside `channels` empty ones, where a slot is put: MONet's way, without weights."""

    empty: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("empty", torch.zeros(1, channels, 1, 1), persistent=False)

    def forward(self, H: int, W: int) -> Tensor:
        """Returns (1, C + 2, H, W)."""
        return torch.cat([self.empty.expand(1, -1, H, W), coordinate_grid(H, W, like=self.empty)], dim=1)

    def factors(self, H: int, W: int) -> tuple[Tensor, Tensor]:
        """Features (1, 2, H, W) and weights (C + 2, 2) whose product is `forward`."""
        own = torch.eye(2, device=self.empty.device, dtype=self.empty.dtype)
        return coordinate_grid(H, W, like=self.empty), torch.cat([own.new_zeros(self.empty.shape[1], 2), own])


def coordinate_grid(H: int, W: int, like: Tensor) -> Tensor:
    """Row and column from -1 to 1, (1, 2, H, W)."""
    down = torch.linspace(-1, 1, H, device=like.device, dtype=like.dtype)
    right = torch.linspace(-1, 1, W, device=like.device, dtype=like.dtype)
    return torch.stack(torch.meshgrid(down, right, indexing="ij")).unsqueeze(0)


def cosine_grid(H: int, W: int, like: Tensor) -> Tensor:
    """Products of cosines with up to two half-waves along each axis, without the constant one, (1, 8, H, W)."""
    halves = math.pi * torch.arange(3, device=like.device, dtype=like.dtype)[:, None]
    down, right = (
        (halves * torch.linspace(0, 1, size, device=like.device, dtype=like.dtype)).cos() for size in (H, W)
    )
    return torch.einsum("ah,bw->abhw", down, right).flatten(0, 1)[1:].unsqueeze(0)


def harmonics(v: Tensor, count: int) -> Tensor:
    """sin and cos of πkv for k = 1..count, of each of the n numbers `v` (..., n). Returns (..., 2 x count x n).

    By angle addition: one call of sin and one of cos in all.
    """
    sin_1, cos_1 = (math.pi * v).sin(), (math.pi * v).cos()
    sines, cosines = [sin_1], [cos_1]
    for _ in range(count - 1):
        sin, cos = sines[-1], cosines[-1]
        sines.append(sin * cos_1 + cos * sin_1)
        cosines.append(cos * cos_1 - sin * sin_1)
    return torch.cat([*sines, *cosines], dim=-1)


def fold_into_disc(u: Tensor) -> tuple[Tensor, Tensor]:
    """Points of the plane `u` (..., 2), moved into the unit disc, and the logarithm of how far out they were (..., 1).

    What is near the origin hardly moves; what is far away comes close to the rim, so that features of it stay bounded.
    """
    squared = u.square().sum(dim=-1, keepdim=True)
    return u * (1 + squared).rsqrt(), (1 + squared).log()
