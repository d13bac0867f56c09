"""The recurrent cells that fuse what a slot sees with its current posterior (line 12 of Algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def gru_step(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """One GRU update from the two pre-activations (..., 3D): reset, update, candidate; the form of torch.nn.GRU."""
    r_in, u_in, n_in = from_input.chunk(3, dim=-1)
    r_state, u_state, n_state = from_state.chunk(3, dim=-1)
    r = torch.sigmoid(r_in + r_state)
    u = torch.sigmoid(u_in + u_state)
    n = torch.tanh(n_in + r * n_state)
    return n + u * (state - n)


class DualGRU(nn.Module):
    """Two independent GRU cells, one for the mean and one for the scale, in one batched product."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight_input = nn.Parameter(torch.empty(2, 3 * size, size))
        self.weight_state = nn.Parameter(torch.empty(2, 3 * size, size))
        self.bias_input = nn.Parameter(torch.empty(2, 3 * size))
        self.bias_state = nn.Parameter(torch.empty(2, 3 * size))
        bound = size**-0.5  # torch.nn.GRU's
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, theta: Tensor, lam: Tensor) -> Tensor:
        """Feeds `theta` (B, K, D) to both cells, whose states are the halves of `lam` (B, K, 2D)."""
        state = lam.unflatten(-1, (2, -1)).flatten(0, 1).transpose(0, 1)  # (2, BK, D)
        inputs = theta.flatten(0, 1).expand(2, -1, -1)
        from_input = torch.baddbmm(self.bias_input[:, None], inputs, self.weight_input.mT)
        from_state = torch.baddbmm(self.bias_state[:, None], state, self.weight_state.mT)
        new = gru_step(from_input, from_state, state)
        return new.transpose(0, 1).reshape(lam.shape)


class SingleGRU(nn.Module):
    """The ablation: one GRU of size 2D over mean and scale together, fed with a widened Θ."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.widen = nn.Linear(size, 2 * size)
        self.cell = nn.GRUCell(2 * size, 2 * size)

    def forward(self, theta: Tensor, lam: Tensor) -> Tensor:
        """The same contract as DualGRU."""
        new: Tensor = self.cell(self.widen(theta).flatten(0, 1), lam.flatten(0, 1))
        return new.reshape(lam.shape)


class LSTM(nn.Module):
    """An LSTM cell with one bias per gate and a forget gate that starts open, as in DeepMind's Sonnet."""

    def __init__(self, size_in: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.gates = nn.Linear(size_in + size, 4 * size)

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Returns the new state, output h and memory c (..., size), given `inputs` (..., size_in); None is zero."""
        zero = inputs.new_zeros(*inputs.shape[:-1], self.size)
        h, c = (zero, zero) if state is None else state
        enter, new, forget, leave = self.gates(torch.cat([inputs, h], dim=-1)).chunk(4, dim=-1)
        c = torch.sigmoid(forget + 1) * c + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(c), c
