"""What a pass of a model costs: time, floating point operations and parameters. Memory is in memory.py."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from emorl.errors import UserError
from emorl.models.base import Model

Key = TypeVar("Key")


@dataclass(frozen=True)
class Pass:
    """One batch through one model: at test time, or forward and backward as in training."""

    make: Callable[[], Model]  # passes that share it share the model; it is pickled to measure memory
    batch_size: int
    training: bool = False
    num_slots: int | None = None  # K; None: as configured
    num_steps: int | None = None  # I; None: as configured
    device: str = "cpu"

    def run(self, model: Model, x: Tensor) -> None:
        if self.training:
            model(x, num_slots=self.num_slots, num_steps=self.num_steps).loss.backward()
            model.zero_grad(set_to_none=True)  # each pass makes its own gradients
        else:
            model.infer(x, num_slots=self.num_slots, num_steps=self.num_steps)

    def images(self, model: Model) -> Tensor:
        size = model.config.image_size
        return torch.rand(self.batch_size, 3, size, size, device=self.device)


class Spread(NamedTuple):
    """The middle half of what was measured."""

    median: float
    low: float  # first quartile
    high: float  # third quartile

    @staticmethod
    def of(values: list[float]) -> Spread:
        if len(values) == 1:
            return Spread(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, low, high)


def seconds(
    passes: Mapping[Key, Pass],
    *,
    repeats: int = 5,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Key, list[float]]:
    """Seconds per image of each pass, `repeats` times. All take turns, so that a busy moment hits them alike.

    On a CPU it is the time of the processor, all threads together, which other programs do not lengthen; elsewhere it
    is that of a clock.
    """
    models = {one.make: one.make().to(one.device) for one in passes.values()}
    x = {key: one.images(models[one.make]) for key, one in passes.items()}
    found: dict[Key, list[float]] = {key: [] for key in passes}
    for repeat in range(repeats + 1):
        for done, (key, one) in enumerate(passes.items(), start=1):
            started = now(one.device)
            one.run(models[one.make], x[key])
            taken = (now(one.device) - started) / one.batch_size
            if repeat > 0:  # the first round warms up
                found[key].append(taken)
            progress(repeat * len(passes) + done, (repeats + 1) * len(passes))
    return found


def now(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    torch.get_device_module(device).synchronize()
    return time.perf_counter()


class FlopCounter(TorchDispatchMode):
    """Adds up products and convolutions by torch's formulas; its own counter cannot follow nested derivatives."""

    total: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func._overloadpacket in flop_registry:
            self.total += flop_registry[func._overloadpacket](*args, **kwargs, out_val=result)
        return result


def flops(one: Pass) -> int:
    """Floating point operations per image; nothing is computed, only shapes are."""
    with torch.device("meta"):
        model = one.make()
        single = replace(one, batch_size=1, device="meta")
        with FlopCounter() as counter:  # type: ignore[no-untyped-call]
            single.run(model, single.images(model))
    total: int = counter.total
    return total


def parameters(make: Callable[[], Model]) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make().parameters())


def refines_at_will(make: Callable[[], Model]) -> bool:
    """Whether the model can do without refinement, so that I is free to choose."""
    try:
        flops(Pass(make, 1, num_steps=0))
    except UserError:
        return False
    return True
