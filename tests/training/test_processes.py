"""Several processes: one dies, all stop and say why, and resuming is exact; and one training per directory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emorl.errors import UserError
from emorl.runs.checkpoint import read_checkpoint
from emorl.runs.directory import CHECKPOINT, LOCK
from emorl.runs.lock import is_abandoned
from emorl.runs.presets import PRESETS
from emorl.training import trainer
from emorl.training.distributed import ending_when_stuck
from forks import context
from processes import (
    ENDLESS,
    OPTIONS,
    assert_close,
    assert_told,
    finish,
    reach,
    start,
    train,
)
from tiny import TINY


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


def test_processes_that_we_start_are_named_when_they_die(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", TINY, "--out", out, *OPTIONS, *ENDLESS, "--train.devices", 2]
    command = [
        sys.executable,
        "-m",
        "emorl",
        *map(str, words),
    ]  # not a fork: Fabric starts this line once more
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        out.with_suffix(".err").touch()
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
    assert "ended with status 1. Nothing was saved yet: start it again." in said


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
