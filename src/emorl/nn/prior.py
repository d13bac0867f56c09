"""HierarchicalPrior: what EfficientMORL's layers of latents expect of one another (Eqs. 5-7 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from emorl.probability import Gaussian

Prior = Literal["bottom-up", "reversed", "reversed++"]


class HierarchicalPrior(nn.Module):
    """p(z^{1:L}), each conditional layer an MLP applied to every slot alike."""

    def __init__(self, slot_size: int, variant: Prior, *, hidden_size: int = 128) -> None:
        super().__init__()
        self.variant = variant
        self.hidden = nn.Sequential(nn.Linear(slot_size, hidden_size), nn.ELU())
        self.mu = nn.Linear(hidden_size, slot_size)
        self.s = nn.Linear(hidden_size, slot_size)

    def given(self, z: Tensor) -> Gaussian:
        """The prior of the layer that depends on `z`."""
        hidden = self.hidden(z)
        return Gaussian.from_params(torch.cat([self.mu(hidden), self.s(hidden)], dim=-1))

    def forward(self, z: Sequence[Tensor], standard: Gaussian) -> tuple[list[Gaussian], Gaussian]:
        """Returns the priors of layers 1..L, given samples z^1..z^L, and the one that refinement is held to.

        Without layers, the latter is the standard normal one.
        """
        if not z:
            return [], standard
        match self.variant:
            case "bottom-up":  # p(z^1), p(z^2|z^1), ..., p(z^L|z^{L-1})
                p = [standard, *map(self.given, z[:-1])]
                return p, p[-1]  # Difference 19
            case "reversed":  # p(z^1|z^2), ..., p(z^{L-1}|z^L), p(z^L)
                return [*map(self.given, z[1:]), standard], standard
            case "reversed++":  # the same chain, but refinement is held to p(z^1|z^2)
                p = [*map(self.given, z[1:]), standard]
                return p, p[0]
