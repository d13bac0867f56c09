"""The memory a pass needs on top of the model, measured in a process of its own, where nothing else has left traces."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.evaluation.efficiency import Pass
from emorl.models.base import Model

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LARGE = str(2**20)  # blocks that go back to the system as soon as they are free


def peak_memory(passes: Sequence[Pass]) -> list[int]:
    """Bytes that each pass of one model takes at its height beyond what was there before, in one new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MALLOC_MMAP_THRESHOLD_": LARGE,
    }
    result = subprocess.run(
        [sys.executable, "-m", "emorl.evaluation.memory", str(torch.get_num_threads())],
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


def measure(passes: Sequence[Pass]) -> list[int]:
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
    found = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1])


def largest_so_far() -> int:
    """Where the system cannot forget it: a lower bound, if what came before was larger."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_elsewhere(one: Pass, model: Model, x: Tensor) -> int:
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
    sys.stdout.write(json.dumps(measure(pickle.load(sys.stdin.buffer))))
