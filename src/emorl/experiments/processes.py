"""Processes: one process of two threads against two of one thread, in turns, and the share of waiting for data."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import table
from emorl.runs.directory import read_metrics

WAYS = {"one process, two threads": (1, 2), "two processes, one thread each": (2, 1)}


@dataclass(frozen=True)
class Trial:
    """What is trained, and for how long."""

    preset: str = "efficient-morl/tetrominoes"
    steps: int = 60
    warm_up: int = 10  # steps that do not count
    rounds: int = 3


def trained(trial: Trial, processes: int, threads: int) -> tuple[float, float]:
    """Trains for a moment. Returns the median wall time of a step and the share of waiting, after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "emorl", "train", trial.preset, "--out", f"{folder}/run"]
        command += ["--train.accelerator", "cpu", "--train.devices", str(processes)]
        command += ["--train.steps", str(trial.steps)]
        command += ["--train.log-every", "1", "--train.evaluate-images", "1"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        lines = read_metrics(Path(folder) / "run")[trial.warm_up - 1 :]
    steps = [after["seconds"] - before["seconds"] for before, after in pairwise(lines)]
    waited, passed = (lines[-1][name] - lines[0][name] for name in ("waiting_seconds", "seconds"))
    return statistics.median(steps), waited / passed


def measure(job: Job) -> Iterator[Row]:
    """Every round tries both ways, because machines are noisy."""
    trial = Trial("efficient-morl/tetrominoes-tiny", 4, 1, 1) if job.scale == "tiny" else Trial()
    for number in range(trial.rounds):
        for way, (processes, threads) in WAYS.items():
            seconds, waiting = trained(trial, processes, threads)
            values = {"seconds_per_step": seconds, "share_of_waiting": waiting, "cores": os.cpu_count()}
            yield Row(way, {**values, "preset": trial.preset}, seed=number)


def sections(result: Result) -> dict[str, str]:
    """The median of the rounds."""
    lines = []
    for way in WAYS:
        mine = [row.values for row in result.rows if row.label == way]
        seconds = statistics.median(values["seconds_per_step"] for values in mine)
        waiting = max(values["share_of_waiting"] for values in mine)
        lines.append([way, str(len(mine)), f"{1000 * seconds:.0f}", f"{waiting:.1%}"])
    head = ["", "rounds", "ms per step, median", "waiting for data, at most"]
    return {"docs/scaling.md#processes": table(head, lines)}


EXPERIMENT = Experiment(
    "Two threads or two processes",
    measure,
    ("seconds_per_step", "share_of_waiting"),
    protocol="60 steps of efficient-morl/tetrominoes, three rounds",
    metrics={
        "seconds_per_step": Metric("seconds per step", "", 3),
        "share_of_waiting": Metric("waiting", "", 4),
    },
    sections=sections,
)
