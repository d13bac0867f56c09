"""Shared fixtures. Tests run on one thread: several of them run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Some virtual machines say they have AMX and do not: the first bf16 product would end the process. PyTorch reads this
# when it computes first.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch

from browser import Visit, started, visits
from forks import Fork, command_line

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_process_for_every_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Training changes how its process handles tiny numbers and freed memory: here many tests share a process."""
    monkeypatch.setattr("emorl.training.trainer.keep_freed_memory", lambda: False)
    torch.manual_seed(0)
    yield
    torch.set_flush_denormal(False)


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def emorl(tmp_path: Path) -> Run:
    """Runs the command line in a process of its own, in an empty folder: a fork, which is there in no time."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        with TemporaryDirectory() as told:
            return command_line(arguments, tmp_path, Path(told))

    return run


@pytest.fixture
def fresh_emorl(tmp_path: Path) -> Run:
    """The same in a new Python, which takes seconds: for what begins with it, or is set before it begins."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "emorl", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def start_emorl(tmp_path: Path) -> Iterator[Callable[..., Fork]]:
    """Starts such a process without waiting for it. What still runs after the test is ended."""
    processes: list[Fork] = []
    with TemporaryDirectory() as told:

        def start(*arguments: object) -> Fork:
            number = len(processes)
            processes.append(
                Fork(arguments, tmp_path, Path(told, f"{number}.out"), Path(told, f"{number}.err"))
            )
            return processes[-1]

        yield start
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of one file: while it runs, its process can run no other event loop."""
    with started() as window:
        yield window


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Opens pages in it."""
    with visits(browser) as opened:
        yield opened
