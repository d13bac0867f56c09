"""Processes that torchrun, SLURM or we start train as one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch

from conftest import ROOT
from emorl.runs.checkpoint import read_checkpoint
from emorl.runs.directory import CHECKPOINT, WEIGHTS, read_metrics
from processes import (
    OPTIONS,
    assert_close,
    finish,
    slurm,
    start,
    torchrun,
    train,
    work_poisoned,
)
from tiny import TINY


def test_slurm_starts_the_processes_of_two_nodes(tmp_path: Path) -> None:
    train(tmp_path / "nodes", "--train.steps", 2, "--train.nodes", 2, count=2, launcher=slurm)
    train(tmp_path / "devices", "--train.steps", 2, count=2)
    assert_close(tmp_path / "nodes", tmp_path / "devices")


@pytest.mark.parametrize(("launcher", "nodes"), [(slurm, 3), (torchrun, 2)])
def test_processes_that_do_not_fit_the_run_are_refused(
    tmp_path: Path, launcher: Callable[..., dict[str, str]], nodes: int
) -> None:
    out = tmp_path / "run"
    processes = start(out, "--train.batch-size", 12, "--train.nodes", nodes, count=2, launcher=launcher)
    said = finish(out, processes)
    assert [process.exitcode for process in processes] == [2, 2]
    assert said.count(f"and train.nodes {nodes} do not fit the processes") == 1
    assert "Traceback" not in said


@pytest.mark.slow
def test_torchrun_takes_our_command_line(tmp_path: Path) -> None:
    """The line of docs/scaling.md, with two launchers on one machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", 29711]
    options = ["-m", "emorl", "train", TINY, *OPTIONS, "--train.steps", 3, "--train.nodes", 2, "--out", "run"]
    nodes = [
        subprocess.Popen(
            [*map(str, [*launcher, "--node-rank", rank, *options])],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for node in nodes:
        _, said = node.communicate(timeout=300)
        assert node.returncode == 0, said
    assert read_checkpoint(tmp_path / "run" / CHECKPOINT)["progress"]["step"] == 3


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    options = ["--train.optimizer", "adam", "--train.learning-rate", 1e-4]
    train(tmp_path / "run", "--train.steps", 3, *options, count=2)
    train(tmp_path / "run", "--resume", "--train.steps", 6, *options, count=1)
    train(tmp_path / "whole", "--train.steps", 6, *options, count=1)
    assert_close(tmp_path / "run", tmp_path / "whole")


def test_a_step_that_is_not_finite_on_one_process_is_skipped_by_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, "--train.steps", 3, count=2, target=work_poisoned)
    assert [record["skipped"] for record in read_metrics(out)] == [0, 1, 1]
    assert all(t.isfinite().all() for t in safetensors.torch.load_file(out / WEIGHTS).values())
