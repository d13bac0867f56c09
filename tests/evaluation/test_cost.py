"""What passes cost: counted, timed, and their memory."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.evaluation.cost import Cost, FlopCounter, Pass, costs, parameters, peak_memory
from emorl.models import build
from emorl.models.base import Model
from emorl.probability import Noise
from emorl.runs.presets import PRESETS
from emorl.types import Decomposition, Outcome
from toys import TINY


class Hog(Model):
    """Takes 32 MiB per image and lets go of it."""

    config = PRESETS[TINY].model

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        torch.ones(len(x), 2**23)
        return Outcome(x.sum(), {}, ())

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        raise NotImplementedError


def test_counts_products_convolutions_and_their_derivatives() -> None:
    layer, x = nn.Conv2d(3, 8, 3), torch.rand(1, 3, 10, 10, requires_grad=True)
    once = 2 * 3 * 8 * 9 * 8 * 8
    counting: Callable[[], FlopCounter] = FlopCounter  # what it inherits from PyTorch has no types
    with counting() as counter, torch.no_grad():
        layer(x)
    assert counter.total == once
    with counting() as counter:
        layer(x).sum().backward()
    assert counter.total == 3 * once  # once more for the weights, and for the input
    with counting() as counter, torch.no_grad():
        nn.Linear(5, 7)(torch.rand(2, 5))
    assert counter.total == 2 * 2 * 5 * 7


def test_quartiles() -> None:
    assert Cost([3.0], 0).quartiles == (3, 3, 3)
    assert Cost([5.0, 1.0, 4.0, 2.0, 3.0], 0).quartiles == (2, 3, 4)


def test_passes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    monkeypatch.setattr(Pass, "run", lambda self, model, x: turns.append(self.batch_size))
    seen: list[tuple[int, int]] = []
    found = costs(
        {B: Pass(Hog, B) for B in (1, 2)}, repeats=2, progress=lambda done, total: seen.append((done, total))
    )
    assert turns == [1, 2] * 3
    assert seen[-1] == (6, 6)
    assert [len(cost.seconds) for cost in found.values()] == [2, 2]  # the first round warms up


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="as Linux counts")
def test_memory_that_the_system_hands_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Pass, model: Model, x: Tensor) -> None:
        with mmap.mmap(-1, 2**24) as block:  # 4096 pages
            block.write(bytes(2**24))

    monkeypatch.setattr(Pass, "run", run)
    cost = costs({"": Pass(Hog, 2)}, repeats=3)[""]
    assert len(cost.faults) == len(cost.system) == 3
    assert min(cost.faults) > 2000  # of each of two images
    assert all(
        0 <= system <= seconds + 0.02 for system, seconds in zip(cost.system, cost.seconds, strict=True)
    )


def test_memory_is_what_a_pass_takes_at_its_height() -> None:
    one, three = (size / 2**20 for size in peak_memory([Pass(Hog, 1), Pass(Hog, 3)]))
    assert 31 < one < 36
    assert 95 < three < 102


def test_a_pass_that_fails_elsewhere_is_reported() -> None:
    with pytest.raises(UserError, match=r"over 2 images failed .*at least 0.*choose smaller batches"):
        peak_memory([Pass(partial(build, PRESETS[TINY].model), 2, num_steps=-1)])


def test_parameters_are_counted() -> None:
    assert parameters(partial(build, PRESETS["efficient-morl/clevr6-paper"].model)) == 666_500
