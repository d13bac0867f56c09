"""Kills, signals, and disks that are full or cannot be written."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from emorl.runs.checkpoint import load_checkpoint, read_checkpoint
from emorl.runs.directory import CHECKPOINT, read_metrics
from emorl.runs.run import load
from processes import ENDLESS, finish, reach, start, train
from tiny import TINY, Start, assert_same, wait_for


def assert_goes_on(
    out: Path, options: list[Any], reached: int, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    """The killed training in `out` continues, and ends like one that was never killed."""
    steps = ["--train.steps", reached + 3]
    assert emorl("train", TINY, "--out", out, *options, *steps, "--resume").returncode == 0
    assert emorl("train", TINY, "--out", "whole", *options, *steps).returncode == 0
    assert_same(out, out.parent / "whole")
    logged = [record["step"] for record in read_metrics(out)]
    assert logged == sorted(set(logged))  # no step twice


def test_a_killed_run_resumes_bit_for_bit(
    tmp_path: Path, start_emorl: Start, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    """kill -9 at any moment, several times, while a checkpoint is written at every step."""
    out = tmp_path / "killed"
    options = ["--train.checkpoint-every", 1, "--train.steps", 100_000, "--train.evaluate-every", 100_000]
    reached = 0
    for attempt in range(3):
        process = start_emorl("train", TINY, "--out", out, *options, *(["--resume"] if attempt else []))

        def is_further(before: int = reached) -> bool:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checkpoint = load_checkpoint(out) if (out / CHECKPOINT).exists() else None
            return checkpoint is not None and checkpoint["progress"]["step"] >= before + 3

        wait_for(is_further, process)
        time.sleep(0.007 * attempt)
        process.kill()
        process.communicate()
        reached = read_checkpoint(out / CHECKPOINT)["progress"]["step"]  # intact, whenever the kill came
    assert_goes_on(out, options, reached, emorl)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(
    tmp_path: Path, start_emorl: Start, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    """Whenever they come: while it starts, computes, logs, scores or saves."""
    out, moments = tmp_path / "killed", random.Random(0)
    options = ["--train.checkpoint-every", 1, "--train.log-every", 1, "--train.evaluate-every", 3]
    options += ["--train.evaluate-images", 1, "--train.steps", 100_000]
    started = time.monotonic()
    for attempt in range(20):
        process = start_emorl("train", TINY, "--out", out, *options, *(["--resume"] if attempt else []))
        if attempt == 0:
            wait_for((out / CHECKPOINT).exists, process)
            usual = time.monotonic() - started  # until the first step is saved
        time.sleep(moments.uniform(0, 1.3 * usual))
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
        read_checkpoint(out / CHECKPOINT)  # intact, whenever the kill came
        assert load(out) is not None
    reached = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    assert reached > 5
    assert_goes_on(out, options, reached, emorl)


@pytest.mark.slow
def test_a_directory_that_is_replaced_while_training(
    tmp_path: Path, start_emorl: Start, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    """`rm -rf RUN` and another training there: the first one ends, and the second is as if it had been alone."""
    out, other = tmp_path / "run", ["--train.seed", 1, "--train.steps", 40, "--train.checkpoint-every", 1]
    first = start_emorl("train", TINY, "--out", out, "--train.steps", 100_000, "--train.checkpoint-every", 1)
    wait_for((out / CHECKPOINT).exists, first)
    out.rename(tmp_path / "away")
    second = emorl("train", TINY, "--out", out, *other)
    assert second.returncode == 0, second.stderr
    _, said = first.communicate(timeout=60)
    assert first.returncode == 2
    # The second is what the system says if it happens in the middle of a save.
    assert "was deleted or replaced while this training ran" in said or "No such file or directory" in said
    assert said.count("emorl: ") == 1
    assert "Traceback" not in said
    assert emorl("train", TINY, "--out", "alone", *other).returncode == 0
    assert_same(out, tmp_path / "alone")


@pytest.mark.slow
def test_of_two_processes_one_is_killed_again_and_again(tmp_path: Path) -> None:
    out, moments = tmp_path / "run", random.Random(1)
    for attempt in range(4):
        processes = start(out, *ENDLESS, *(["--resume"] if attempt else []), count=2)
        before = read_metrics(out)[-1]["step"] if attempt else 0
        reach(before + 6, out)
        time.sleep(moments.uniform(0, 0.2))
        processes[attempt % 2].kill()
        said = finish(out, processes)
        assert "Traceback" not in said
        assert all(process.exitcode for process in processes)
    reached = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    train(out, "--resume", "--train.steps", reached + 2, count=2)
    train(tmp_path / "whole", "--train.steps", reached + 2, count=2)
    assert_same(out, tmp_path / "whole")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_and_exit_cleanly(tmp_path: Path, start_emorl: Start, signum: int) -> None:
    out = tmp_path / "run"
    process = start_emorl(
        "train", TINY, "--out", out, "--train.steps", 100_000, "--train.checkpoint-every", 100_000
    )
    wait_for(lambda: len(read_metrics(out)) > 1, process)
    process.send_signal(signum)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + signum
    assert f"emorl train {out / 'config.json'} --out {out} --resume" in message
    assert "Traceback" not in message
    step = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    assert f"Stopped at step {step}" in message
    assert load(out) is not None


def test_a_full_disk_leaves_the_last_checkpoint(
    tmp_path: Path,
    emorl: Callable[..., CompletedProcess[str]],
    fresh_emorl: Callable[..., CompletedProcess[str]],
) -> None:
    assert emorl("train", TINY, "--out", "run", "--train.steps", 3).returncode == 0
    before = (tmp_path / "run" / CHECKPOINT).read_bytes()
    limit = len(before) // 2

    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = fresh_emorl("train", TINY, "--out", "run", "--train.steps", 6, "--resume", preexec_fn=fill_disk)
    assert full.returncode == 2
    assert "Cannot write" in full.stderr
    assert "Traceback" not in full.stderr
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == before
    assert not list((tmp_path / "run").glob(".*.tmp"))
    assert emorl("train", TINY, "--out", "run", "--train.steps", 6, "--resume").returncode == 0


def test_folders_that_cannot_be_written_are_named(
    tmp_path: Path, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / "file").write_text("")
    result = emorl("train", TINY, "--out", tmp_path / "file" / "run")
    assert result.returncode == 2
    assert f"Cannot make the folder {tmp_path / 'file' / 'run'}" in result.stderr
    if os.getuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        assert emorl("train", TINY, "--out", tmp_path / "locked").returncode == 2
    assert emorl("train", TINY, "--out", "/proc/run").returncode == 2


def test_several_processes_share_one_error(
    tmp_path: Path, fresh_emorl: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / "file").write_text("")
    result = fresh_emorl("train", TINY, "--out", "file", "--train.devices", 2, "--train.accelerator", "cpu")
    assert result.returncode == 2
    assert result.stderr.count("file is a file, not a folder for a run") == 1
    assert "Traceback" not in result.stderr
