"""Runs of earlier versions open, evaluate and continue as they would have then; so do the released weights."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import ROOT
from emorl.evaluation.evaluate import evaluate
from emorl.runs import upgrade
from emorl.runs.config import RunConfig
from emorl.runs.directory import read_history, read_metrics
from emorl.runs.run import Run, load, released
from emorl.training import trainer
from helpers import present

OLD = ROOT / "tests" / "runs" / "old-run"  # made by version 0.1.0: six steps of a training


def test_an_old_run_opens_and_scores_the_same() -> None:
    run = Run.open(OLD)
    assert run.kind == "efficient-morl"
    assert run.config.train.steps == run.steps_done == 6
    assert run.metrics[-1]["kl"] > 0  # it was called kl_refined
    assert run.environment["python"] == "3.11.7"
    scores = evaluate(run.model, run.scenes("test"), images=4)
    # What version 0.1.0 found.
    assert scores.mean("mse") == pytest.approx(0.27603, rel=1e-3)
    assert scores.mean("nll") == pytest.approx(1211.07, rel=1e-3)
    assert scores.mean("kl") == pytest.approx(68.117, rel=1e-3)


def test_an_old_run_continues_as_it_would_have(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(OLD, out)
    run = RunConfig.read(out / "config.json")
    trainer.train(run.with_steps(9), out, resume=True)
    losses = [line["loss"] for line in read_metrics(out)]
    assert len(losses) == 9
    assert losses[-1] == pytest.approx(5170.307, rel=1e-3)  # of version 0.1.0, with the same seed
    assert [line["event"] for line in read_history(out)] == ["resume"]


@pytest.mark.parametrize("name", released())
def test_released_weights_load(name: str) -> None:
    run = Run.open(name)
    assert run.directory is None
    found = evaluate(load(name), run.scenes("test"), images=32).mean("ari")
    assert found == pytest.approx(run.scores["ari"], abs=0.03)
    assert run.is_finished
    assert present(run.cpu_minutes) > 1


def test_settings_and_names_of_weights_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(values: upgrade.Values) -> None:
        if "speed" in values["train"]:
            values["train"]["learning_rate"] = values["train"].pop("speed")

    monkeypatch.setattr(upgrade, "CONFIG_CHANGES", [*upgrade.CONFIG_CHANGES, rename])
    monkeypatch.setattr(upgrade, "WEIGHT_NAMES", {"ramp.": None, "old.": "new."})
    values = Run.open(OLD).config.to_dict()
    values["train"]["speed"] = values["train"].pop("learning_rate")
    before = {name: dict(group) for name, group in values.items()}
    assert RunConfig.from_dict(values) == Run.open(OLD).config
    assert values == before  # what was given stays as it was
    one = torch.zeros(1)
    assert upgrade.upgrade_weights({"old.a": one, "ramp.updates": one, "b": one}) == {"new.a": one, "b": one}


def test_what_is_new_in_the_settings_has_its_default() -> None:
    values = Run.open(OLD).config.to_dict()
    del values["train"]["drop_below"]
    run = RunConfig.from_dict(values)
    assert run == replace(Run.open(OLD).config, train=replace(run.train, drop_below=0.0))
