"""What several commands have in common: --device, the numbers that options may be, and JSON on the console."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from emorl.errors import LARGEST_SEED, UserError, check_range

Device = Literal["auto", "cpu", "cuda"]

# Option -> least and most. What is beyond the most would not fit into any memory, or not end within a life.
LIMITS = {
    "slots": (1, 1000),
    "steps": (0, 1000),
    "tries": (1, 1000),
    "seeds": (1, 10_000),
    "seed": (0, LARGEST_SEED),
    "images": (1, 10**9),
    "scenes": (1, 10**9),
    "largest": (16, 4096),
    "slot": (0, 999),
    "dims": (0, 10**6),
    "jobs": (1, 1000),
    "repeats": (1, 10_000),
    "threads": (1, 1000),
    "sizes": (5, 4096),
    "batch_sizes": (1, 10_000),
}


def check_options(**given: int | Sequence[int] | None) -> None:
    """Raises UserError for the first number that its option cannot have; None stands for an option left out."""
    for name, value in given.items():
        for one in [value] if isinstance(value, int) else value or ():
            check_range(f"--{name.replace('_', '-')}", one, *LIMITS[name])
    seed, seeds = given.get("seed"), given.get("seeds")
    if isinstance(seed, int) and isinstance(seeds, int):
        check_range("--seed", seed, 0, LARGEST_SEED - seeds + 1)


def choose_device(device: Device) -> torch.device:
    """Returns the device that was asked for; auto is a GPU if there is one. Raises UserError if it is not there."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UserError("There is no CUDA device here; use --device cpu.")
    return torch.device("cuda" if has_gpu and device != "cpu" else "cpu")


def print_json(values: Mapping[str, Any]) -> None:
    """Prints one line of JSON, at once."""
    print(json.dumps(values), flush=True)
