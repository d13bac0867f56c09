"""Densities of slots in a sequence: the prior of GENESIS and GENESIS-V2, and how both read their Gaussians."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.probability import Gaussian


def posterior_from(params: Tensor) -> Gaussian:
    """Reads (..., 2D): mean, then a scale that starts near one and may become any positive number."""
    mu, raw = params.chunk(2, dim=-1)
    return Gaussian(mu, F.softplus(raw + 0.5) + 1e-8)


def prior_from(params: Tensor) -> Gaussian:
    """Reads (..., 2D): mean in [-1, 1], then a scale below one: a prior never wider than the first slot's."""
    mu, raw = params.chunk(2, dim=-1)
    return Gaussian(mu.tanh(), (raw + 4).sigmoid() + 1e-4)


class AutoregressivePrior(nn.Module):
    """p(z_1) p(z_2 | z_1) ... p(z_K | z_1..z_{K-1}), the first of them standard normal."""

    def __init__(self, slot_size: int, *, hidden_size: int = 256) -> None:
        super().__init__()
        self.lstm = nn.LSTM(slot_size, hidden_size, batch_first=True)
        self.head = nn.Linear(hidden_size, 2 * slot_size)

    def forward(self, z: Tensor) -> Gaussian:
        """Returns the prior of each slot, given samples `z` (B, K, D) of those before it."""
        first = Gaussian.standard(z[:, :1])
        if z.shape[1] == 1:
            return first
        with torch.autocast(z.device.type, enabled=False):  # many CPUs have no LSTM of 16 bits
            states, _ = self.lstm(z[:, :-1])
        rest = prior_from(self.head(states))
        return Gaussian(torch.cat([first.mu, rest.mu], dim=1), torch.cat([first.sigma, rest.sigma], dim=1))
