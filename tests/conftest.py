"""Shared fixtures. Tests run on one thread: several of them run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Some virtual machines say they have AMX and do not: the first bf16 product would end the process. PyTorch reads this
# when it computes first.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch

from browser import Visit, started, visits

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
    """Runs the command line in a process of its own, in an empty folder."""

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
def start_emorl(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command line without waiting for it. What still runs after the test is ended."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "emorl", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()  # a test may have done so


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
