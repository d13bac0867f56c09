"""Beginning and continuing a run: the same settings, and a history that says what happened."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emorl.errors import UserError
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG, HISTORY, LOCK, WEIGHTS, read_history, read_metrics
from emorl.runs.resume import FREE, differences
from emorl.schedules import Schedule
from emorl.training import trainer
from tiny import assert_same, tiny


def changed(run: RunConfig, name: str, value: Any) -> RunConfig:
    values = run.to_dict()
    *groups, last = name.split(".")
    inner = values
    for group in groups:
        inner = inner[group]
    inner[last] = value
    return RunConfig.from_dict(values)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three steps, with checkpoint."""
    out = tmp_path_factory.mktemp("trained") / "run"
    trainer.train(tiny(steps=3), out)
    return out


COSINE = Schedule.parse("0 linear 2:0.001 cosine 100%:0")
CHANGES = {
    "train.learning_rate": "0.002",
    "train.max_grad_norm": 4.0,
    "train.num_steps": "2",
    "train.precision": "bf16-mixed",
    "train.drop_below": 0.5,
    "train.optimizer": "adam",
    "train.muon_size": 0.4,
    "train.seed": 1,
    "train.batch_size": 8,
    "model.num_slots": 5,
    "model.objective.nll_weight": 1.0,
    "model.objective.geco.warm_up": 5,
    "data.seed": 1,
    "data.train_size": 50,
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_computation_is_refused(trained: Path, name: str) -> None:
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    run = changed(tiny(steps=6), name, CHANGES[name])
    with pytest.raises(UserError) as caught:
        trainer.train(run, trained, resume=True)
    old = tiny().flat()[name]
    assert str(caught.value).startswith(
        f"{name} was {old!r} when {trained} was started and is {CHANGES[name]!r} now"
    )
    assert f"emorl train {trained / CONFIG} --out {trained} --resume" in str(caught.value)
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_another_model_is_told_by_its_kind() -> None:
    other = changed(tiny(), "train.seed", 3)
    values = other.to_dict() | {"model": {"kind": "slot-attention"}}
    assert differences(tiny(), RunConfig.from_dict(values)) == {
        "model.kind": ("efficient-morl", "slot-attention")
    }


def test_watching_and_places_may_change_and_history_tells(tmp_path: Path) -> None:
    trainer.train(tiny(steps=3, checkpoint_every=1), tmp_path / "run")
    config = (tmp_path / "run" / CONFIG).read_bytes()
    trainer.train(tiny(steps=3, log_every=1, accelerator="cpu"), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / CONFIG).read_bytes() == config
    trainer.train(tiny(steps=6, checkpoint_every=1), tmp_path / "run", resume=True)
    first, second, third = read_history(tmp_path / "run")
    assert (first["event"], first["step"], first["changed"]) == ("start", 0, {})
    assert {"time", "version", "commit", "python", "torch", "cpu", "threads", "load", "allocator"} <= set(
        first
    )
    assert (second["event"], second["step"]) == ("resume", 3)
    assert second["changed"]["train.accelerator"] == ["auto", "cpu"]
    assert set(second["changed"]) <= FREE
    assert third["changed"] == {"train.steps": [3, 6]}
    assert RunConfig.read(tmp_path / "run" / CONFIG) == tiny(steps=6, checkpoint_every=1)
    trainer.train(tiny(), tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_steps_stay_where_the_schedule_depends_on_them(tmp_path: Path) -> None:
    trainer.train(tiny(steps=3, learning_rate=COSINE), tmp_path)
    with pytest.raises(
        UserError, match=r"train\.steps was 3 .* is 6 now: train\.learning_rate depends on it"
    ):
        trainer.train(tiny(steps=6, learning_rate=COSINE), tmp_path, resume=True)


def test_steps_already_done_are_not_undone(trained: Path) -> None:
    with pytest.raises(UserError, match=r"train\.steps was 3 .* is 2 now: 3 steps are done already"):
        trainer.train(tiny(steps=2), trained, resume=True)


def test_a_run_is_not_overwritten(trained: Path) -> None:
    with pytest.raises(UserError, match="holds a run already: add --resume"):
        trainer.train(tiny(steps=3), trained)
    trainer.train(tiny(steps=3), trained, resume=True)  # finished already: nothing to do


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS).write_text("mine")
    for resume in (False, True):
        with pytest.raises(UserError, match=f"has a {WEIGHTS} but no {CONFIG}"):
            trainer.train(tiny(), tmp_path, resume=resume)
    assert {path.name for path in tmp_path.iterdir()} == {WEIGHTS}
    (tmp_path / CONFIG).write_text("also mine")
    with pytest.raises(UserError, match="holds a run already"):
        trainer.train(tiny(), tmp_path)
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / HISTORY).write_text('{"asked": "of another program"}\n')
    with pytest.raises(UserError, match="holds a run already"):
        trainer.train(tiny(), tmp_path)
    assert (tmp_path / CONFIG).read_text() == "also mine"


@pytest.mark.parametrize("name", [LOCK, HISTORY])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_strangers_run_does_not_lead_elsewhere(name: str, kind: str, trained: Path, tmp_path: Path) -> None:
    run, mine = shutil.copytree(trained, tmp_path / "run"), tmp_path / "mine"
    mine.write_text("precious")
    (run / name).unlink(missing_ok=True)
    if kind == "link":
        (run / name).symlink_to(mine)
    else:
        os.mkfifo(run / name)
    with pytest.raises(UserError, match=rf"{re.escape(name)}: "):
        trainer.train(tiny(steps=3), run, resume=True)
    assert mine.read_text() == "precious"


def test_a_run_that_saved_nothing_may_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that only the first step shows is corrected with another command, without --resume."""
    with monkeypatch.context() as patched:
        patched.setattr(
            trainer, "seed_noise", lambda seed, step: (_ for _ in ()).throw(UserError("A mistake."))
        )
        with pytest.raises(UserError) as caught:
            trainer.train(tiny(seed=1), tmp_path)
        assert str(caught.value) == "A mistake."  # nothing was saved, and --resume would not help
    assert (tmp_path / CONFIG).exists()
    trainer.train(tiny(), tmp_path)
    assert RunConfig.read(tmp_path / CONFIG) == tiny()
    assert [line["event"] for line in read_history(tmp_path)] == ["start", "start"]
    assert read_metrics(tmp_path)[-1]["step"] == 5


def test_history_is_kept_as_it_is(tmp_path: Path) -> None:
    trainer.train(tiny(steps=3), tmp_path)
    before = (tmp_path / HISTORY).read_text()
    trainer.train(replace(tiny(), train=tiny(steps=6).train), tmp_path, resume=True)
    assert (tmp_path / HISTORY).read_text().startswith(before)
    assert json.loads(before)["event"] == "start"
