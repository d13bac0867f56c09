"""RefinementNetwork: reads a posterior and the gradient of its loss, proposes an update (line 23 of Algorithm 1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.nn.mlp import mlp
from emorl.probability import as_float32


class RefinementNetwork(nn.Module):
    """f of line 23: reads a posterior and the gradient of its loss, and proposes an update."""

    def __init__(self, slot_size: int, *, hidden_size: int = 128) -> None:
        super().__init__()
        D = slot_size
        self.encode = mlp(4 * D, hidden_size, D, activation=nn.ELU)
        self.gru = nn.GRUCell(D, D)
        self.mu = nn.Linear(D, D)
        self.s = nn.Linear(D, D)

    def forward(self, lam: Tensor, gradient: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns δλ (B, K, 2D) and the new state (B, K, D); a state of None is zero."""
        halves = gradient.unflatten(-1, (2, -1))
        normed = F.layer_norm(halves, halves.shape[-1:])  # Difference 13: mean and scale apart, not affine
        encoded = self.encode(torch.cat([lam, normed.flatten(-2)], dim=-1))
        h = self.gru(encoded.flatten(0, 1), None if h is None else h.flatten(0, 1))
        h = h.unflatten(0, lam.shape[:2])
        return as_float32(torch.cat([self.mu(h), self.s(h)], dim=-1)), h  # Difference 11
