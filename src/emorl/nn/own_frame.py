"""OwnFramePooling: what a slot attends to, seen from the middle of what it attends to.

Plain attention adds up tokens that know where in the image they are. Here a slot also adds up features together with
their place relative to the slot's own centre and spread, so that a shape looks the same wherever it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from emorl.nn.position import fold_into_disc, harmonics

LEAST_SPREAD = 1e-3  # variance of a slot's places below which it counts as a point


class OwnFramePooling(nn.Module):
    """One layer over (feature, relative place), pooled by attention, and one after it."""

    places: Tensor

    def __init__(
        self, feature_size: int, slot_size: int, *, grid: int, channels: int, frequencies: int = 4
    ) -> None:
        super().__init__()
        self.frequencies = frequencies
        self.what = nn.Linear(feature_size, channels)
        self.where = nn.Linear(3 + 4 * frequencies, channels, bias=False)
        self.out = nn.Linear(channels, slot_size)
        self.frame = nn.Linear(3, slot_size)  # centre and spread themselves
        line = (torch.arange(grid) + 0.5) / grid * 2 - 1
        self.register_buffer("places", torch.cartesian_prod(line, line), persistent=False)

    def forward(self, features: Tensor, weights: Tensor) -> Tensor:
        """Pools `what(features)` (B, 1, N, C) by `weights` (B, K, N), which sum to one over N. Returns (B, K, D)."""
        centre = weights @ self.places
        # Not E[p²] - E[p]²: of a small object that has three digits left, and refinement makes errors larger.
        away = self.places - centre.unsqueeze(2)
        variance = (weights.unsqueeze(2) @ away.square()).squeeze(2).mean(dim=-1, keepdim=True)
        spread = variance.clamp_min(LEAST_SPREAD).sqrt()
        inside, far = fold_into_disc(away / (2 * spread).unsqueeze(2))
        where = self.where(torch.cat([inside, far, harmonics(inside, self.frequencies)], dim=-1))
        # Pooled before the layer after it, which is then applied once per slot and not once per token.
        pooled = weights.unsqueeze(2) @ (features + where).relu()
        seen: Tensor = self.out(pooled.squeeze(2)) + self.frame(torch.cat([centre, spread.log() + 1], dim=-1))
        return seen
