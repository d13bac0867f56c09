"""Several processes: one dies, all stop and say why, and resuming is exact, and one training per directory.

Most processes here are forks of a server that has everything imported, started as torchrun or SLURM would start them:
the environment tells each its rank.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from conftest import ROOT
from emorl.cli import main
from emorl.errors import UserError
from emorl.runs.checkpoint import read_checkpoint
from emorl.runs.directory import CHECKPOINT, LOCK, WEIGHTS, read_metrics
from emorl.runs.lock import is_abandoned
from emorl.runs.presets import PRESETS
from emorl.training import trainer
from emorl.training.distributed import ending_when_stuck
from emorl.types import Scene
from tiny import TINY

OPTIONS = ["--train.accelerator", "cpu", "--train.checkpoint-every", 5, "--train.log-every", 1]
OPTIONS += ["--train.evaluate-every", 100_000, "--train.evaluate-images", 1]
ENDLESS = ["--train.steps", 100_000]

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["emorl.cli", "lightning_fabric", "test_processes"])
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
    original = trainer.endless

    def batches(*args: Any, rank: int, **options: Any) -> Iterator[Scene]:
        for step, batch in enumerate(original(*args, rank=rank, **options)):
            is_poisoned = rank == 1 and step == 1
            yield replace(batch, image=batch.image * float("nan")) if is_poisoned else batch

    trainer.endless = batches
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


@pytest.mark.parametrize("count", [2, 4])
def test_a_killed_process_stops_the_training_which_resumes(tmp_path: Path, count: int) -> None:
    out, whole = tmp_path / "killed", tmp_path / "whole"
    # DDP orders gradients anew after its first step and adds them up in another order: the same but for rounding, which
    # Adam does not enlarge much at this rate.
    options = ["--train.optimizer", "adam", "--train.learning-rate", 1e-4]
    processes = start(out, *ENDLESS, *options, count=count)
    reach(6, out)
    processes[-1].kill()
    killed = time.monotonic()
    step = assert_told(finish(out, processes), out, "connection to another process of this training was lost")
    assert time.monotonic() - killed < 20
    assert all(process.exitcode for process in processes)
    assert not (out / LOCK).exists()
    train(out, "--resume", "--train.steps", step + 3, *options, count=count)
    train(whole, "--train.steps", step + 3, *options, count=count)
    assert_close(out, whole)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    options = ["--train.optimizer", "adam", "--train.learning-rate", 1e-4]
    train(tmp_path / "run", "--train.steps", 3, *options, count=2)
    train(tmp_path / "run", "--resume", "--train.steps", 6, *options, count=1)
    train(tmp_path / "whole", "--train.steps", 6, *options, count=1)
    assert_close(tmp_path / "run", tmp_path / "whole")


def test_processes_that_we_start_are_named_when_they_die(
    tmp_path: Path, start_emorl: Callable[..., subprocess.Popen[str]]
) -> None:
    out = tmp_path / "run"
    process = start_emorl("train", TINY, "--out", out, *OPTIONS, *ENDLESS, "--train.devices", 2)
    reach(6, out)
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    worker = int(found.stdout)
    os.kill(worker, signal.SIGKILL)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert_told(said, out, f"Process 1 of 2 (id {worker}) was killed by SIGKILL.")
    assert not (out / LOCK).exists()


def test_when_the_first_process_is_killed_the_second_speaks(tmp_path: Path) -> None:
    out = tmp_path / "run"
    processes = start(out, *ENDLESS, count=2)
    reach(6, out)
    processes[0].kill()
    assert_told(finish(out, processes), out, "Process 0 was killed.")
    assert processes[1].exitcode == 1


def test_a_signal_to_one_process_stops_all_with_everything_saved(tmp_path: Path) -> None:
    out = tmp_path / "run"
    processes = start(out, *ENDLESS, count=2)
    reach(6, out)
    processes[1].terminate()
    said = finish(out, processes)
    assert [process.exitcode for process in processes] == [128 + signal.SIGTERM] * 2
    step = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    assert said.count(f"Stopped at step {step}; everything is saved.") == 1
    assert "Traceback" not in said


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="fills the disk of another process: Linux")
def test_a_full_disk_ends_all_processes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    processes = start(out, *ENDLESS, count=2)
    reach(6, out)
    size = (out / CHECKPOINT).stat().st_size
    resource.prlimit(processes[0].pid, resource.RLIMIT_FSIZE, (size // 2, size // 2))
    assert_told(finish(out, processes), out, f"Cannot write {out}")
    assert [process.exitcode for process in processes] == [2, 1]


def test_a_step_that_is_not_finite_on_one_process_is_skipped_by_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, "--train.steps", 3, count=2, target=work_poisoned)
    assert [record["skipped"] for record in read_metrics(out)] == [0, 1, 1]
    assert all(t.isfinite().all() for t in safetensors.torch.load_file(out / WEIGHTS).values())


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


def hang(directory: Path) -> None:
    """Stands for a process that is stuck in a collective when another one fails."""
    os.dup2(os.open(directory.with_suffix(".err"), os.O_WRONLY | os.O_CREAT), 2)
    with ending_when_stuck([subprocess.Popen(["false"])], directory, grace=0.1):
        time.sleep(60)


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    process = context.Process(target=hang, args=(tmp_path / "run",))
    process.start()
    said = finish(tmp_path / "run", [process])
    assert process.exitcode == 1
    assert "ended with status 1. Nothing was saved yet. Continue with: emorl train" in said


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


def test_two_trainings_do_not_share_a_directory(tmp_path: Path) -> None:
    out = tmp_path / "run"
    (first,) = start(out, *ENDLESS, count=1)
    reach(6, out)
    with pytest.raises(UserError, match=rf"run is in use: process {first.pid} is training there\."):
        trainer.train(PRESETS[TINY], out, resume=True)
    assert first.is_alive()
    first.kill()
    first.join()
    assert is_abandoned(out)
    train(out, "--resume", "--train.steps", 8, count=1)  # no stale lock
    assert not (out / LOCK).exists()
