"""mlp(): the one way to build an MLP here."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def mlp(*sizes: int, activation: type[nn.Module]) -> nn.Sequential:
    """Linear layers of the given sizes with `activation` between them and nothing after the last."""
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers += [nn.Linear(size_in, size_out), activation()]
    return nn.Sequential(*layers[:-1])
