"""Trainings of several processes, which are forks (forks.py).

They are started as torchrun or SLURM would start them: the environment tells each its rank.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import safetensors.torch
import torch

from emorl.cli import main
from emorl.data.loading import endless
from emorl.runs.checkpoint import read_checkpoint
from emorl.runs.directory import CHECKPOINT, WEIGHTS, read_metrics
from emorl.training import trainer
from emorl.types import Scene
from forks import context
from tiny import TINY

OPTIONS = ["--train.accelerator", "cpu", "--train.checkpoint-every", 5, "--train.log-every", 1]
OPTIONS += ["--train.evaluate-every", 100_000, "--train.evaluate-images", 1]
ENDLESS = ["--train.steps", 100_000]

Process = Any  # a multiprocessing process; the class depends on the system


def work(arguments: Sequence[object], environment: dict[str, str], stderr: Path) -> None:
    """What each process does: the command line, in an environment of its own."""
    os.environ.update(environment)
    file = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    torch.set_num_threads(1)
    main([str(argument) for argument in arguments])


def work_poisoned(arguments: Sequence[object], environment: dict[str, str], stderr: Path) -> None:
    """The same, but the second batch of the second process is not finite."""

    def batches(*args: Any, rank: int, **options: Any) -> Iterator[Scene]:
        for step, batch in enumerate(endless(*args, rank=rank, **options)):
            is_poisoned = rank == 1 and step == 1
            yield replace(batch, image=batch.image * float("nan")) if is_poisoned else batch

    with mock.patch.object(trainer, "endless", batches):
        work(arguments, environment, stderr)


def torchrun(rank: int, count: int, port: int) -> dict[str, str]:
    """What torchrun tells a process."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "GROUP_RANK": 0, "MASTER_PORT": port}
    return {"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "127.0.0.1"} | {k: str(v) for k, v in ranks.items()}


def slurm(rank: int, count: int, port: int) -> dict[str, str]:
    """What SLURM tells a process, on nodes with one task each."""
    ranks = {"SLURM_PROCID": rank, "SLURM_NODEID": rank, "SLURM_LOCALID": 0, "SLURM_NTASKS": count}
    ranks |= {"SLURM_NNODES": count, "SLURM_NTASKS_PER_NODE": 1, "MASTER_PORT": port, "SLURM_JOB_ID": 7}
    names = {"SLURM_JOB_NAME": "train", "SLURM_NODELIST": "localhost", "MASTER_ADDR": "127.0.0.1"}
    return names | {k: str(v) for k, v in ranks.items()}


def start(
    out: Path,
    *options: object,
    count: int,
    launcher: Callable[..., dict[str, str]] = torchrun,
    target: Callable[..., None] = work,
) -> list[Process]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["train", TINY, "--out", out, *OPTIONS, *options]
    if launcher is torchrun:
        arguments += ["--train.devices", count]
    processes = []
    for rank in range(count):
        environment = launcher(rank, count, port) if count > 1 else {}
        process = context.Process(target=target, args=(arguments, environment, out.with_suffix(".err")))
        process.start()
        processes.append(process)
    return processes


def finish(out: Path, processes: Sequence[Process]) -> str:
    """Waits for all processes and returns what they have said."""
    for process in processes:
        process.join(60)
        assert process.exitcode is not None
    return out.with_suffix(".err").read_text()


def train(out: Path, *options: object, **how: Any) -> None:
    processes = start(out, *options, **how)
    said = finish(out, processes)
    assert not any(process.exitcode for process in processes), said


def reach(step: int, out: Path) -> None:
    """Waits until the training in `out` has logged `step`."""
    deadline = time.monotonic() + 120
    while not any(record["step"] >= step for record in read_metrics(out)):
        assert time.monotonic() < deadline, out.with_suffix(".err").read_text()
        time.sleep(0.02)


def assert_told(said: str, out: Path, what: str) -> int:
    """One message, and no traceback. Returns the step that it says is saved."""
    told = [line for line in said.splitlines() if line.startswith("emorl:")]
    assert len(told) == 1, said
    assert what in told[0]
    step = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    assert f"Everything up to step {step} is saved." in told[0]
    assert told[0].endswith(f"Continue with: emorl train {out / 'config.json'} --out {out} --resume")
    assert "Traceback" not in said
    return int(step)


def assert_close(one: Path, other: Path) -> None:
    """Same weights up to rounding, but for the bias of the mask logits: softmax over slots ignores it."""
    a, b = (safetensors.torch.load_file(folder / WEIGHTS) for folder in (one, other))
    for weights in (a, b):
        weights["decoder.rest.7.bias"][12:] = 0
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=2e-5, msg=name)
