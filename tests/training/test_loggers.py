"""train.logger: what TensorBoard and wandb are told, read back from their own files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emorl.cli import main

TRAIN = ["train", "efficient-morl/tetrominoes-tiny", "--out", "run", "--train.steps", "2"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_training_is_followed_in_tensorboard() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    main([*TRAIN, "--train.logger", "tensorboard"])
    events = EventAccumulator("run/tensorboard").Reload()
    assert [one.step for one in events.Scalars("loss")] == [0, 1]
    assert 0 <= events.Scalars("validation_ari")[-1].value <= 1


def test_training_is_followed_by_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    main([*TRAIN, "--train.logger", "wandb"])
    (record,) = Path("run/wandb").glob("offline-run-*/run-*.wandb")
    content = record.read_bytes()
    assert b"validation_ari" in content
    assert b"learning_rate" in content


def test_wandb_without_an_account_is_told_before_anything_is_written(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    known = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    result = subprocess.run(
        [sys.executable, "-m", "emorl", *TRAIN, "--train.logger", "wandb"],
        env={**known, "HOME": str(tmp_path), "NETRC": str(tmp_path / "none")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("emorl: wandb: No API key configured.")
    assert result.stderr.count("\n") == 1
    assert not Path("run").exists()
