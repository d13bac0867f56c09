"""Batches without end: which scenes step s sees is a pure function of (seed, s), so resuming needs no state."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from emorl.data.base import Array, SceneDataset
from emorl.types import Scene


def batch_indices(length: int, batch_size: int, *, seed: int, step: int) -> list[int]:
    """Returns the scenes of batch `step` of an endless walk through shuffled epochs; batches may span two of them."""
    positions = range(step * batch_size, (step + 1) * batch_size)
    return [int(epoch_order(length, seed, position // length)[position % length]) for position in positions]


@lru_cache(maxsize=2)
def epoch_order(length: int, seed: int, epoch: int) -> Array:
    return np.random.default_rng((seed, epoch)).permutation(length)


def endless(
    scenes: SceneDataset, batch_size: int, *, seed: int, start: int = 0, rank: int = 0, world_size: int = 1
) -> Iterator[Scene]:
    """Yields this rank's share of batches start, start + 1, ...; `batch_size` counts all ranks together."""
    step = start
    while True:
        indices = batch_indices(len(scenes), batch_size, seed=seed, step=step)
        yield Scene.stack([scenes[index] for index in indices[rank::world_size]])
        step += 1


def in_order(
    scenes: SceneDataset, batch_size: int, *, limit: int | None = None
) -> Iterator[tuple[list[int], Scene]]:
    """Yields (indices, batch) over the first `limit` scenes, in order; the last batch may be smaller."""
    count = len(scenes) if limit is None else min(limit, len(scenes))
    for first in range(0, count, batch_size):
        indices = list(range(first, min(first + batch_size, count)))
        yield indices, Scene.stack([scenes[index] for index in indices])
