"""Denormals: processor time of a training pass of the released weights, with tiny numbers kept or flushed to zero."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from emorl.data import DataConfig, open_dataset
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import table
from emorl.runs.run import load
from emorl.types import Scene

PASSES, ROUNDS = 8, 5
WAYS = {"kept": False, "flushed to zero": True}


def measure(job: Job) -> Iterator[Row]:
    """Yields the seconds of a pass for each way, the least of several rounds; the ways take turns against noise."""
    rounds, images = (1, 2) if job.scale == "tiny" else (ROUNDS, 16)
    torch.set_num_threads(1)  # set_flush_denormal holds for the calling thread only
    model = load("efficient-morl/tetrominoes")
    scenes = open_dataset(DataConfig("tetrominoes"), "train")
    x = Scene.stack([scenes[index] for index in range(images)]).image

    def seconds(flush: bool) -> float:
        torch.set_flush_denormal(flush)
        started = time.process_time()
        for _ in range(PASSES):
            model.zero_grad()
            model(x).loss.backward()
        return (time.process_time() - started) / PASSES

    seconds(True)  # warm up
    found = {way: [] for way in WAYS}  # type: dict[str, list[float]]
    for _ in range(rounds):
        for way, flush in WAYS.items():
            found[way].append(seconds(flush))
    for way, values in found.items():
        yield Row(way, {"seconds": min(values), "rounds": rounds})


def sections(result: Result) -> dict[str, str]:
    """Returns the table for the page about learning."""
    seconds = {row.label: row.values["seconds"] for row in result.rows}
    least = seconds["flushed to zero"]
    lines = [[way, f"{1000 * value:.0f}", f"{value / least:.2f}"] for way, value in seconds.items()]
    return {
        "docs/learning.md#denormals": table(["denormal numbers", "CPU ms per pass", "times as long"], lines)
    }


EXPERIMENT = Experiment(
    "What denormal numbers cost",
    measure,
    ("seconds",),
    protocol="a training pass of the released weights over 16 scenes, the least of five rounds of eight",
    metrics={"seconds": Metric("seconds", "of the processor", 4)},
    sections=sections,
)
