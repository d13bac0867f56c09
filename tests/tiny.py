"""Runs that take a second, and what tests of runs and of training do with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from emorl.data.loading import endless
from emorl.runs.config import RunConfig
from emorl.runs.directory import WEIGHTS
from emorl.runs.presets import PRESETS
from emorl.types import Scene
from forks import Fork

TINY = "efficient-morl/tetrominoes-tiny"
Start = Callable[..., Fork]


def tiny(**changes: Any) -> RunConfig:
    run = PRESETS[TINY]
    return replace(
        run, train=replace(run.train, **{"steps": 6, "checkpoint_every": 3, "evaluate_every": 6, **changes})
    )


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(directory / WEIGHTS)


def assert_same(one: Path, other: Path) -> None:
    assert (one / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes()


def wait_for(condition: Callable[[], bool], process: Fork) -> None:
    deadline = time.monotonic() + 300  # a busy machine takes minutes to import PyTorch
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def poisoned(steps: set[int]) -> Callable[..., Iterator[Scene]]:
    """Batches of which some hold NaN."""

    def batches(*args: Any, start: int = 0, **options: Any) -> Iterator[Scene]:
        for step, batch in enumerate(endless(*args, start=start, **options), start=start):
            yield replace(batch, image=batch.image * float("nan")) if step in steps else batch

    return batches
