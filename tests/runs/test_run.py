"""Opening a run: by directory, or by the name of released weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from emorl.data import DataConfig
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.runs import run as runs
from emorl.runs.directory import SCORES, WEIGHTS
from emorl.runs.presets import PRESETS, preset
from emorl.runs.release import release
from emorl.runs.run import Run, load
from emorl.training import trainer
from helpers import present
from tiny import TINY, tiny

RUN = replace(tiny(), data=DataConfig(test_size=24))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    trainer.train(RUN, out)
    return out


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_run_knows_what_is_known(copy: Path) -> None:
    run = Run.open(copy)
    assert (run.name, run.label, run.directory) == (str(copy), str(copy), copy)
    assert Run.open(copy, label="ours").label == "ours"
    assert run.config == RUN
    assert (run.kind, run.seed, run.steps_done, run.is_finished) == ("efficient-morl", 0, 6, True)
    assert run.scores == {}
    (copy / SCORES).write_text('{"ari": 0.5}')
    assert Run.open(copy).scores["ari"] == 0.5
    assert run.environment["version"]
    assert present(run.cpu_minutes) > 0
    assert len(run.scenes("test")) == 24
    assert run.model is run.model  # loaded once
    assert not run.model.training


def test_a_run_that_has_just_begun_opens_without_weights(copy: Path) -> None:
    for path in copy.iterdir():
        if path.name != "config.json":
            path.unlink()
    run = Run.open(copy)
    assert (run.metrics, run.steps_done, run.is_finished, run.cpu_minutes) == ([], 0, False, None)
    with pytest.raises(UserError, match="has not reached the first checkpoint"):
        _ = run.model


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run directory: it has no config\.json"):
        Run.open(tmp_path)
    with pytest.raises(UserError, match="There is no run directory and no released model"):
        Run.open(tmp_path / "absent")


def test_weights_that_do_not_fit_are_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["model"]["slot_size"] = 16
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="does not fit the model"):
        load(copy)
    (copy / WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="no readable weights"):
        load(copy)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(copy: Path, value: float) -> None:
    weights = safetensors.torch.load_file(copy / WEIGHTS)
    name = sorted(weights)[0]
    weights[name].view(-1)[0] = value
    safetensors.torch.save_file(weights, copy / WEIGHTS)
    with pytest.raises(UserError, match=f"numbers that are not finite, in {name}"):
        load(copy)


def test_released_weights_load_by_name(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(Run.open(trained), "some/model", TINY, folder=tmp_path)
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    assert runs.released() == ["some/model"]
    card = runs.card_of("some/model")
    assert card["scores"]["images"] == 24
    assert card["scores_without_refinement"]["num_steps"] == 0
    assert card["command"] == f"emorl train {TINY} --out RUN --train.seed 0 --train.steps 6"
    model, own = load("some/model"), load(trained)
    assert all(torch.equal(t, own.state_dict()[name]) for name, t in model.state_dict().items())
    assert Run.open("some/model").scores["ari"] == card["scores"]["ari"]
    with pytest.raises(UserError, match="did you mean 'some/model'"):
        load("some/modle")
    weights = tmp_path / "some" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="damaged"):
        load("some/model")


def test_a_card_says_what_one_start_gets_of_a_model_that_has_several(copy: Path, tmp_path: Path) -> None:
    assert "scores_of_one_start" not in release(Run.open(copy), "one", TINY, folder=tmp_path)
    before = evaluate(load(copy), Run.open(copy).scenes("test")).summary()
    config = json.loads((copy / "config.json").read_text())
    config["model"]["inference"]["starts"] = 3
    (copy / "config.json").write_text(json.dumps(config))
    card = release(Run.open(copy), "several", TINY, folder=tmp_path)
    assert card["scores_of_one_start"] == before
    assert "scores_of_four_tries" not in card
    assert card["scores"]["nll"] != before["nll"]


@pytest.mark.parametrize("name", runs.released())
def test_a_name_means_the_same_for_training_and_for_weights(name: str) -> None:
    assert runs.card_of(name)["preset"] == name
    assert Run.open(name).config.model == preset(name).model


def test_names_of_version_0_1_still_mean_the_settings_for_small_machines() -> None:
    assert preset("efficient-morl/tetrominoes-fast") is PRESETS["efficient-morl/tetrominoes"]
    with pytest.raises(UserError, match="no preset 'efficient-morl/cats-fast'"):
        preset("efficient-morl/cats-fast")


def test_weights_that_were_trained_further_count_everything_before() -> None:
    run = Run.open("efficient-morl/multi-dsprites-long")
    first = Run.open("efficient-morl/multi-dsprites")
    middle = Run.open("efficient-morl/multi-dsprites-middle")
    assert run.config.train.start_from == middle.name
    assert middle.config.train.start_from == first.name
    steps = [one.config.train.steps for one in (first, middle, run)]
    assert run.steps_in_all == sum(steps)
    assert run.cpu_minutes is not None
    assert run.cpu_minutes > middle.card["cpu_minutes"] > first.card["cpu_minutes"]
    curve = run.curve("ari", "no such score")
    assert curve[0]["step"] > middle.steps_in_all
    assert curve[0]["cpu_minutes"] > middle.card["cpu_minutes"]
    assert [point["step"] for point in curve] == sorted(point["step"] for point in curve)
    assert set(curve[-1]) == {"step", "cpu_minutes", "ari"}
    assert first.earlier is None
