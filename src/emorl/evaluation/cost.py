"""What a pass of a model costs: time, floating point operations, parameters and memory."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.compiler import set_stance
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from emorl.errors import UserError
from emorl.models.base import Model
from emorl.types import Progress, silent

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
        """Passes `x` through the model once."""
        if self.training:
            model(x, num_slots=self.num_slots, num_steps=self.num_steps).loss.backward()
            model.zero_grad(set_to_none=True)  # each pass makes its own gradients
        else:
            model.infer(x, num_slots=self.num_slots, num_steps=self.num_steps)

    def images(self, model: Model) -> Tensor:
        """Random images of the model's size."""
        size = model.config.image_size
        return torch.rand(self.batch_size, 3, size, size, device=self.device)


@dataclass(frozen=True)
class Cost:
    """What a pass took, per image."""

    seconds: list[float]  # each repetition's
    flops: float  # floating point operations
    system: list[float] = field(default_factory=list)  # seconds that went into the system, mostly for memory
    faults: list[float] = field(default_factory=list)  # pages of memory that the system had to hand out

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The middle half of the seconds: its lower end, the median, its upper end."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0], self.seconds[0]
        low, median, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, median, high


def costs(
    passes: Mapping[Key, Pass],
    *,
    repeats: int = 5,
    progress: Progress = silent,
) -> dict[Key, Cost]:
    """Runs each pass `repeats` times. All take turns, so that a busy moment hits them alike.

    On a CPU time is that of the processor, all threads together, which other programs do not lengthen; elsewhere it is
    that of a clock.
    """
    models = {one.make: one.make().to(one.device) for one in passes.values()}
    found: dict[Key, Cost] = {}
    for repeat in range(repeats + 1):
        for done, (key, one) in enumerate(passes.items(), start=1):
            model = models[one.make]
            x = one.images(model)
            if repeat == 0:  # warms up, and counts, which cannot be done with what is compiled
                with set_stance("force_eager"), FlopCounter() as counter:  # type: ignore[no-untyped-call]
                    one.run(model, x)
                found[key] = Cost([], counter.total / one.batch_size)
            else:
                system, faults = memory_handed_out()
                started = now(one.device)
                one.run(model, x)
                found[key].seconds.append((now(one.device) - started) / one.batch_size)
                later_system, later_faults = memory_handed_out()
                found[key].system.append((later_system - system) / one.batch_size)
                found[key].faults.append((later_faults - faults) / one.batch_size)
            progress(repeat * len(passes) + done, (repeats + 1) * len(passes))
    return found


def now(device: str) -> float:
    """Seconds: of processor time on a CPU, of the clock elsewhere."""
    if device == "cpu":
        return time.process_time()
    torch.get_device_module(device).synchronize()
    return time.perf_counter()


def memory_handed_out() -> tuple[float, int]:
    """Seconds that this process has spent in the system, and pages of memory that it was given; 0 where not counted."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0, 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_stime, used.ru_minflt


class FlopCounter(TorchDispatchMode):
    """Adds up products and convolutions by torch's formulas; its own counter cannot follow nested derivatives."""

    total: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func._overloadpacket in flop_registry:
            self.total += flop_registry[func._overloadpacket](*args, **kwargs, out_val=result)
        return result


def parameters(make: Callable[[], Model]) -> int:
    """Number of parameters, without making them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make().parameters())


# Memory a pass needs on top of the model, measured in a process of its own, where nothing else has left traces.

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LARGE = str(2**20)  # bytes; blocks of this size go back to the system as soon as they are free


def peak_memory(passes: Sequence[Pass]) -> list[int]:
    """Bytes that each pass of one model takes at its height beyond what was there before, in one new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MALLOC_MMAP_THRESHOLD_": LARGE,
    }
    result = subprocess.run(
        [sys.executable, "-m", "emorl.evaluation.cost", str(torch.get_num_threads())],
        input=pickle.dumps(list(passes)),
        capture_output=True,
        env=environment,
        check=False,
    )
    if result.returncode != 0:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"the process ended with {result.returncode}"
        raise UserError(
            f"A pass over {passes[0].batch_size} images failed ({reason}). "
            "If it ran out of memory, choose smaller batches or images."
        )
    found: list[int] = json.loads(result.stdout)
    return found


def measure_memory(passes: Sequence[Pass]) -> list[int]:
    """Bytes at the height of each pass; called in the new process."""
    found = []
    model = passes[0].make().to(passes[0].device)
    for one in passes:
        single = replace(one, batch_size=1)
        single.run(model, single.images(model))  # loads what the first pass loads
        x = one.images(model)
        gc.collect()
        found.append(peak_on_cpu(one, model, x) if one.device == "cpu" else peak_elsewhere(one, model, x))
    return found


def peak_on_cpu(one: Pass, model: Model, x: Tensor) -> int:
    """What the process grows by, as Linux counts it; a lower bound where it cannot be reset."""
    try:
        CLEAR.write_text("5")  # forgets the largest size so far
    except OSError:
        before = largest_so_far()
        one.run(model, x)
        return largest_so_far() - before
    before = kibibytes("VmRSS")
    one.run(model, x)
    return 1024 * max(0, kibibytes("VmHWM") - before)


def kibibytes(name: str) -> int:
    """A line of /proc/self/status."""
    found = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1])


def largest_so_far() -> int:
    """Where the system cannot forget it: a lower bound, if what came before was larger."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_elsewhere(one: Pass, model: Model, x: Tensor) -> int:
    """What the device's allocator grows by."""
    device = torch.get_device_module(one.device)
    device.synchronize()
    device.reset_peak_memory_stats()
    before: int = device.memory_allocated()
    one.run(model, x)
    device.synchronize()
    peak: int = device.max_memory_allocated()
    return peak - before


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    sys.stdout.write(json.dumps(measure_memory(pickle.load(sys.stdin.buffer))))
