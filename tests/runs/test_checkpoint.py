"""Checkpoints: damage of every kind is found, and no code runs."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from emorl.errors import UserError
from emorl.models import build
from emorl.runs.checkpoint import read_checkpoint, save_checkpoint
from emorl.runs.directory import CHECKPOINT, PREVIOUS, WEIGHTS
from emorl.runs.lock import Replaced
from emorl.runs.run import load
from emorl.training import trainer
from tiny import assert_same, tiny


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    trainer.train(tiny(), tmp_path / "a")
    trainer.train(tiny(), tmp_path / "b")
    path = tmp_path / "a" / CHECKPOINT
    content = bytearray(path.read_bytes())
    if damage == "flip":
        middle = len(content) // 2
        content[middle : middle + 200] = bytes(byte ^ 1 for byte in content[middle : middle + 200])
    path.write_bytes(
        {"truncate": bytes(content[:-1000]), "empty": b"", "garbage": b"x" * 999}.get(damage, bytes(content))
    )
    with pytest.warns(UserWarning, match=r"checkpoint\.pt is damaged .* looking for the previous one"):
        trainer.train(tiny(), tmp_path / "a", resume=True)
    assert_same(tmp_path / "a", tmp_path / "b")


def test_without_an_intact_checkpoint_there_is_an_error(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path)
    for name in (CHECKPOINT, PREVIOUS):
        (tmp_path / name).write_bytes(b"junk")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(UserError, match="No intact checkpoint is left"),
    ):
        trainer.train(tiny(), tmp_path, resume=True)


def test_checkpoints_hold_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, ("touch evil",)

    torch.save({"model": Evil()}, tmp_path / CHECKPOINT)
    with pytest.raises(ValueError):
        read_checkpoint(tmp_path / CHECKPOINT)


def checkpoint_of(trained: Path) -> dict[str, Any]:
    return read_checkpoint(trained / CHECKPOINT)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    trainer.train(tiny(steps=3, optimizer="adam"), out)
    return out


def rewritten(trained: Path, tmp_path: Path, checkpoint: object) -> Path:
    """A copy of a run with another checkpoint, and no spare one."""
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    (out / PREVIOUS).unlink(missing_ok=True)
    torch.save(checkpoint, out / CHECKPOINT)
    return out


@pytest.mark.parametrize("group", ["model", "optimizer", "progress", "curriculum"])
def test_a_checkpoint_without_a_part_is_damaged(trained: Path, tmp_path: Path, group: str) -> None:
    checkpoint = checkpoint_of(trained)
    del checkpoint[group]
    out = rewritten(trained, tmp_path, checkpoint)
    with pytest.raises(ValueError, match=f"it has no {group}"):
        read_checkpoint(out / CHECKPOINT)
    with (
        pytest.warns(UserWarning, match=f"it has no {group}"),
        pytest.raises(UserError, match="No intact checkpoint is left"),
    ):
        trainer.train(tiny(optimizer="adam"), out, resume=True)


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(3), 7, {}])
def test_a_checkpoint_that_is_something_else_is_damaged(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / CHECKPOINT)
    with pytest.raises(ValueError, match=r"it has no model|it holds a "):
        read_checkpoint(tmp_path / CHECKPOINT)


def first(values: dict[Any, Any]) -> Any:
    return values[next(iter(values))]


def spoil(checkpoint: dict[str, Any], what: str) -> None:
    name = next(iter(checkpoint["model"]))
    state = first(checkpoint["optimizer"]["state"])
    match what:
        case "weight is missing":
            del checkpoint["model"][name]
        case "weight has another shape":
            checkpoint["model"][name] = torch.zeros(3, 3)
        case "weight has another type":
            checkpoint["model"][name] = checkpoint["model"][name].double()
        case "weight is no tensor":
            checkpoint["model"][name] = "text"
        case "weight is NaN":
            checkpoint["model"][name] = torch.full_like(checkpoint["model"][name], torch.nan)
        case "weight too many":
            checkpoint["model"]["more"] = torch.zeros(1)
        case "average is NaN":
            state["exp_avg"] = torch.full_like(state["exp_avg"], torch.nan)
        case "average has another shape":
            state["exp_avg"] = torch.zeros(1, 2, 3)
        case "average is missing":
            del state["exp_avg"]
        case "average of nothing":
            checkpoint["optimizer"]["state"][10**6] = state
        case "no averages":
            checkpoint["optimizer"]["state"] = [1]
        case "step":
            checkpoint["progress"]["step"] = 10**12
        case "counter":
            checkpoint["progress"]["seconds"] = "long"
        case "counter too many":
            checkpoint["progress"]["more"] = 1
        case "curriculum":
            checkpoint["curriculum"] = {"dropped": "two"}
        case "peak":
            checkpoint["curriculum"] = {"peak": {"x": 1}}


@pytest.mark.parametrize(
    "what",
    [
        "weight is missing", "weight has another shape", "weight has another type", "weight is no tensor",
        "weight is NaN", "weight too many", "average is NaN", "average has another shape", "average is missing",
        "average of nothing", "no averages", "step", "counter", "counter too many", "curriculum", "peak",
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_is_refused(trained: Path, tmp_path: Path, what: str) -> None:
    checkpoint = checkpoint_of(trained)
    spoil(checkpoint, what)
    out = rewritten(trained, tmp_path, checkpoint)
    message = r"does not fit the model|not finite|cannot be continued: its |after step 1000000000000"
    with pytest.raises(UserError, match=message) as caught:
        trainer.train(tiny(optimizer="adam"), out, resume=True)
    assert "\n" not in str(caught.value)
    assert "--resume" not in str(caught.value)  # it would fail again


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(2**26))
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="it is compressed"):
        read_checkpoint(path)


def test_overlapping_parts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data/0", bytes(1000))
        entry = archive.infolist()[0]
        archive.filelist += [entry] * 50
    with pytest.raises(ValueError, match="longer than the file"):
        read_checkpoint(path)


def with_pipe(trained: Path, tmp_path: Path, name: str) -> Path:
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    (out / PREVIOUS).unlink(missing_ok=True)
    (out / name).unlink()
    os.mkfifo(out / name)
    return out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are a thing of Unix")
@pytest.mark.filterwarnings("ignore:.*looking for the previous one")
@pytest.mark.parametrize("name", [CHECKPOINT, "config.json", "metrics.jsonl"])
def test_pipes_are_not_waited_for(trained: Path, tmp_path: Path, name: str) -> None:
    out = with_pipe(trained, tmp_path, name)
    with pytest.raises(UserError, match=r"a pipe, not a file|No intact checkpoint"):
        trainer.train(tiny(optimizer="adam"), out, resume=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are a thing of Unix")
@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_models_are_not_read_from_pipes(trained: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"a pipe, not a file"):
        load(with_pipe(trained, tmp_path, name))


@pytest.mark.parametrize("allowed", range(3))
def test_the_directory_is_looked_at_right_before_each_file_is_put_in_place(
    allowed: int, tmp_path: Path
) -> None:
    """It may be replaced while a file is written, which can take seconds."""
    model = build(tiny().model)
    state: dict[str, Any] = {"optimizer": {}, "curriculum": {}, "progress": {"step": 1}}
    save_checkpoint(tmp_path, model, state)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    looks = iter(range(allowed + 1))

    def check() -> None:
        if next(looks) == allowed:
            raise Replaced("It is another one now.")

    with pytest.raises(Replaced):
        save_checkpoint(tmp_path, build(tiny().model), state | {"progress": {"step": 2}}, check=check)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    put_in_place = {CHECKPOINT, PREVIOUS} if allowed == 2 else set()
    assert {name for name in after if after[name] != before.get(name)} == put_in_place
