"""Trains what is missing of several runs, a few at a time, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from emorl.errors import UserError
from emorl.experiments.results import identity
from emorl.files import make_directory, write_json
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG, read_metrics
from emorl.runs.run import Run
from emorl.training.signals import Interrupted, stop_requests

POLL = 0.5  # seconds between looks at the processes
REPORT = 60.0  # seconds between messages about those that run
LOG = "train.log"
WANTED = "wanted.json"  # what to train; config.json itself appears when training has begun


def is_finished(directory: Path, config: RunConfig) -> bool:
    """Whether `config` was trained there to the end. Raises UserError for the directory of another run."""
    if not (directory / CONFIG).exists():
        return False
    run = Run.open(directory)
    if (identity(run.config), run.seed) != (identity(config), config.train.seed):
        raise UserError(f"{directory} holds a run with other settings: choose another --out, or delete it.")
    return run.is_finished


def train_missing(
    runs: Mapping[Path, RunConfig], *, jobs: int = 1, say: Callable[[str], None] = print
) -> None:
    """Trains each run into its directory unless it is there; SIGINT and SIGTERM stop all, and nothing is lost."""
    missing = [directory for directory, config in runs.items() if not is_finished(directory, config)]
    if not missing:
        return
    say(
        f"{len(runs) - len(missing)} of {len(runs)} runs are trained, {len(missing)} to go, {jobs} at a time."
    )
    waiting, spoken = missing[::-1], time.monotonic()
    running: dict[Path, subprocess.Popen[bytes]] = {}
    with stop_requests() as requests:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    directory = waiting.pop()
                    running[directory] = start(directory, runs[directory], is_alone=jobs == 1)
                time.sleep(POLL)
                for directory in [d for d, process in running.items() if process.poll() is not None]:
                    settle(directory, running.pop(directory).returncode, runs[directory], say)
                if time.monotonic() - spoken > REPORT:
                    spoken = time.monotonic()
                    say("; ".join(f"{d}: {how_far(d, runs[d])}" for d in running))
                if requests:
                    raise Interrupted(requests[0], 0)
        finally:
            for process in running.values():
                process.send_signal(signal.SIGTERM)  # they save a checkpoint and exit
            for process in running.values():
                process.wait()


def start(directory: Path, config: RunConfig, *, is_alone: bool) -> subprocess.Popen[bytes]:
    """Starts the training of one run, or continues it."""
    make_directory(directory)
    write_json(directory / WANTED, config.to_dict())
    command = [sys.executable, "-m", "emorl", "train", str(directory / WANTED)]
    command += ["--out", str(directory), "--resume"]
    # Two runs with two threads each on two cores are several times slower than with one.
    threads = {} if is_alone else {"OMP_NUM_THREADS": "1"}
    log: IO[bytes]
    with (directory / LOG).open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **threads}, start_new_session=True
        )


def settle(directory: Path, returncode: int, config: RunConfig, say: Callable[[str], None]) -> None:
    """Reports a process that has ended; raises UserError if it has failed."""
    if returncode != 0:
        lines = (directory / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit status {returncode}"
        raise UserError(f"The training in {directory} failed ({reason}); see {directory / LOG}.")
    (directory / WANTED).unlink(missing_ok=True)
    say(f"{directory}: {how_far(directory, config)}")


def how_far(directory: Path, config: RunConfig) -> str:
    """The step that a training has reached, and its last validation ARI."""
    metrics = read_metrics(directory)
    step = int(metrics[-1]["step"]) + 1 if metrics else 0
    scores = [line for line in metrics if line.get("validation_ari") is not None]
    ari = f", ARI {scores[-1]['validation_ari']:.3f}" if scores else ""
    return f"step {step} of {config.train.steps}{ari}"
