"""What tests of models share: noise that is known, and configs with a few settings changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from emorl.probability import Noise

T = TypeVar("T")


def recorded(seed: int = 0) -> tuple[Noise, list[Tensor]]:
    """Noise that remembers what it gave, and the list that it remembers it in."""
    generator, given = torch.Generator().manual_seed(seed), []

    def normal(like: Tensor) -> Tensor:
        given.append(torch.randn(like.shape, generator=generator, dtype=like.dtype))
        return given[-1]

    return Noise(normal), given


def replayed(draws: Sequence[Tensor], *, means: bool = False) -> Noise:
    """Noise that gives these numbers, one after the other."""
    left = iter(draws)
    return Noise(lambda like: next(left), means)


def always(draw: Tensor, *, means: bool = False) -> Noise:
    """Noise that gives these numbers at every call."""
    return Noise(lambda like: draw, means)


def present(value: T | None) -> T:
    """What could be None, and is not."""
    assert value is not None
    return value


def varied(config: Any, **changes: Any) -> Any:
    """A copy of `config`; a change that is a dict changes those settings of a group and leaves the rest."""
    return replace(
        config,
        **{
            name: replace(getattr(config, name), **change) if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    )
