"""Endless batches: the scenes of step s are a function of (seed, s), so resuming needs no state."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import lru_cache
from queue import Full, Queue
from threading import Event, Thread

import numpy as np

from emorl.data.base import Array, SceneDataset
from emorl.types import Scene


def batch_indices(length: int, batch_size: int, *, seed: int, step: int) -> list[int]:
    """Returns the scenes of batch `step` of an endless walk through shuffled epochs; batches may span two of them."""
    positions = range(step * batch_size, (step + 1) * batch_size)
    return [int(epoch_order(length, seed, position // length)[position % length]) for position in positions]


@lru_cache(maxsize=2)
def epoch_order(length: int, seed: int, epoch: int) -> Array:
    """Returns the shuffled scene numbers (length,) of an epoch, a function of the arguments alone."""
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


def prefetch(batches: Iterator[Scene], count: int = 2) -> Generator[Scene, None, None]:
    """Yields `batches`; a thread makes up to `count` of them in advance."""
    ready: Queue[Scene | Exception] = Queue(count)
    is_over = Event()

    def make() -> None:
        try:
            for batch in batches:
                hand_over(batch)
                if is_over.is_set():
                    return
        except Exception as error:
            hand_over(error)

    def hand_over(item: Scene | Exception) -> None:
        while not is_over.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except Full:
                continue

    thread = Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, Exception):
                raise item
            yield item
    finally:  # the caller takes no more: end the thread
        is_over.set()
        thread.join()


def in_order(
    scenes: SceneDataset, batch_size: int, *, limit: int | None = None
) -> Iterator[tuple[list[int], Scene]]:
    """Yields (indices, batch) over the first `limit` scenes, in order; the last batch may be smaller."""
    count = len(scenes) if limit is None else min(limit, len(scenes))
    for first in range(0, count, batch_size):
        indices = list(range(first, min(first + batch_size, count)))
        yield indices, Scene.stack([scenes[index] for index in indices])
