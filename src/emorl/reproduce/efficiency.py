"""Time and parameters of a pass of every model: what `figure-10` can say of any machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from emorl.models import build, kind_of
from emorl.models.base import Model
from emorl.presets import PRESETS
from emorl.report.published import SYSTEMS
from emorl.reproduce.trained import Row, Trained

BATCH, REPEATS = 4, 7  # the paper's batch
STEPS = (0, 1, 3)


def train_pass(model: Model, x: Tensor, I: int | None) -> None:
    model(x, num_steps=I).loss.backward()


def passes(trained: Sequence[Trained]) -> list[Row]:
    """CPU milliseconds per image, in training and at test time, of each model's CLEVR6 configuration."""
    configurations = {
        kind_of(run.model): run.model for name, run in PRESETS.items() if name.endswith("/clevr6")
    }
    cells: dict[str, Callable[[], Any]] = {}
    parameters: dict[str, int] = {}
    for kind, config in configurations.items():
        model = build(config)
        x = torch.rand(BATCH, 3, config.image_size, config.image_size)
        for I in STEPS if hasattr(config, "num_steps") else (None,):
            label = SYSTEMS.get(kind, kind) + ("" if I is None else f", I={I}")
            parameters[label] = sum(p.numel() for p in model.parameters())
            cells[f"{label}|forward_ms"] = partial(model.infer, x, num_steps=I)
            cells[f"{label}|training_ms"] = partial(train_pass, model, x, I)
    times: dict[str, list[float]] = {cell: [] for cell in cells}
    for _ in range(REPEATS):  # interleaved, so that a busy moment hits all alike
        for cell, run in cells.items():
            started = time.process_time()
            run()
            times[cell].append(1000 * (time.process_time() - started) / BATCH)
    return [
        {"label": label, "seed": 0, "parameters": count}
        | {kind: statistics.median(times[f"{label}|{kind}"]) for kind in ("forward_ms", "training_ms")}
        for label, count in parameters.items()
    ]
