"""What limits speed: how fast single convolutions run, where the time of a training step goes, what memory costs."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from emorl.evaluation.cost import Pass, memory_handed_out
from emorl.models.base import Model

BLOCK = 2**28  # bytes that are touched to see what memory costs
PAGE = 4096


def kernel_speeds(conv: nn.Conv2d, *, count: int, size: int, repeats: int) -> dict[str, float]:
    """GFLOP/s of a convolution over `count` pictures of `size` x `size`, and of its two gradients; medians."""
    x = torch.randn(count, conv.in_channels, size, size).contiguous(memory_format=torch.channels_last)
    weight, options = conv.weight.detach(), (conv.stride, conv.padding, conv.dilation, False, (0, 0), 1)

    def forward() -> torch.Tensor:
        return F.conv2d(x, weight, padding=conv.padding)

    gradient = torch.randn_like(forward())

    def backward(*wanted: bool) -> Callable[[], Any]:
        arguments = (gradient, x, weight, None, *options, list(wanted))
        return lambda: torch.ops.aten.convolution_backward(*arguments)

    gflop = 2e-9 * weight.numel() * gradient[:, 0].numel()
    ways = {
        "forward": forward,
        "gradient of the input": backward(True, False, False),
        "gradient of the weights": backward(False, True, False),
    }
    return {way: gflop / seconds_of(run, repeats) for way, run in ways.items()}


def seconds_of(run: Callable[[], Any], repeats: int) -> float:
    """The median of the processor's time, after one call that warms up."""
    found = []
    for _ in range(repeats + 1):
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return max(median(found[1:]), 1e-9)


class Shares(TorchDispatchMode):
    """Adds up the processor's time of operations, by their names."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: dict[str, float] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = time.process_time()
        result = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        self.seconds[name] = self.seconds.get(name, 0) + time.process_time() - started
        return result


def time_shares(one: Pass, model: Model) -> dict[str, float]:
    """Which shares of a pass are convolutions with their gradients, activations with theirs, and all the rest."""
    x = one.images(model)
    one.run(model, x)  # warms up
    started = time.process_time()
    with Shares() as counted:
        one.run(model, x)
    whole = max(time.process_time() - started, 1e-9)
    named = {"convolutions": ("conv",), "activations": ("elu", "threshold", "clamp_min")}
    found = {
        what: sum(spent for name, spent in counted.seconds.items() if any(part in name for part in parts))
        / whole
        for what, parts in named.items()
    }
    return {**found, "the rest": 1 - sum(found.values())}


def page_costs(repeats: int) -> list[float]:
    """Microseconds of the system for each page of new memory, time after time; empty where that is not counted."""
    found = []
    for _ in range(repeats):
        before, had = memory_handed_out()
        with mmap.mmap(-1, BLOCK) as block:
            block[::PAGE] = bytes(BLOCK // PAGE)
        after, has = memory_handed_out()
        if has > had:
            found.append(1e6 * (after - before) / (has - had))
    return found
