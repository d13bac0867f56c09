"""One training per directory, and only in the directory that it began in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from emorl.errors import UserError
from emorl.runs.directory import CHECKPOINT, LOCK, WEIGHTS
from emorl.runs.lock import Replaced, is_abandoned, locked
from emorl.runs.presets import PRESETS
from emorl.training import trainer
from tiny import TINY, tiny


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match="in use"), locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
    with locked(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} is training there"):
        trainer.train(PRESETS[TINY], tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_locks_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emorl.runs.lock.fcntl", None)
    with locked(tmp_path), locked(tmp_path):
        assert not is_abandoned(tmp_path)


def test_a_replaced_directory_is_not_ours(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with locked(out) as old:
        old.check()
        shutil.rmtree(out)
        with pytest.raises(Replaced, match="was deleted or replaced"):
            old.check()
        out.mkdir()
        new = locked(out)
        with new as lock:
            lock.check()
            with pytest.raises(Replaced):
                old.check()
            assert (out / LOCK).exists()
        assert not (out / LOCK).exists()


def test_the_old_lock_does_not_remove_the_new_one(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with locked(out):
        shutil.rmtree(out)
        out.mkdir()
        (out / LOCK).write_text("another training")
    assert (out / LOCK).exists()


def test_an_old_training_leaves_a_new_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rm -rf RUN` and another training there, while the first still runs."""
    out, run = tmp_path / "run", tiny(log_every=1)
    is_replaced = False

    def replace_it(seed: int, step: int) -> None:
        nonlocal is_replaced
        seed_noise(seed, step)
        if step == 4 and not is_replaced:
            is_replaced = True
            shutil.rmtree(out)
            trainer.train(tiny(seed=1), out)

    seed_noise = trainer.seed_noise
    monkeypatch.setattr(trainer, "seed_noise", replace_it)
    with pytest.raises(UserError, match=r"was deleted or replaced while this training ran") as caught:
        trainer.train(run, out)
    assert "--resume" not in str(caught.value)
    monkeypatch.setattr(trainer, "seed_noise", seed_noise)
    trainer.train(tiny(seed=1), tmp_path / "other")
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "other" / WEIGHTS).read_bytes()
    assert (out / CHECKPOINT).stat().st_size == (tmp_path / "other" / CHECKPOINT).stat().st_size
    assert not list(out.glob(".*"))


def test_files_of_others_are_no_locks(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("packages, as another program wants them")
    with pytest.raises(UserError, match="was not written by emorl"), locked(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text().startswith("packages")
    (tmp_path / LOCK).write_text("123\n")  # of a training that was killed
    with locked(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_lock_that_is_taken_again_and_again_names_its_process_alone(tmp_path: Path) -> None:
    """A training that is killed leaves its lock, and the next one writes over it."""
    for number in ("123456789", "1"):
        (tmp_path / LOCK).write_text(f"{number}\n")
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_bytes() == f"{os.getpid()}\n".encode()
