"""Configs: what goes to JSON comes back, and mistakes name their culprit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emorl.errors import UserError
from emorl.models.efficient_morl_config import ObjectiveConfig
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name: str) -> None:
    run = PRESETS[name]
    assert RunConfig.from_dict(json.loads(json.dumps(run.to_dict()))) == run


@pytest.mark.parametrize(
    ("group", "changes", "message"),
    [
        (
            "train",
            {"learnig_rate": 1e-4},
            "train.learnig_rate is not a setting.*did you mean 'learning_rate'",
        ),
        (
            "model",
            {"objective": {"likelihood": "gmm"}},
            "model.objective.likelihood must be one of 'gaussian', 'mixture', 'pixel-mixture', not 'gmm'",
        ),
        ("model", {"num_slots": "four"}, "model.num_slots must be of type int, not 'four'"),
        ("model", {"num_slots": True}, "model.num_slots must be of type int, not True"),
        (
            "model",
            {"objective": {"geco": {"taget": 1}}},
            "objective.geco.taget is not a.*did you mean 'target'",
        ),
        (
            "model",
            {"objective": {"geco": {"target": "atuo"}}},
            "model.objective.geco.target must be of type float, not 'atuo'",
        ),
        ("model", {"objective": {"geco": 3}}, "model.objective.geco must be a group of settings"),
        ("model", {"decoder": "lean"}, "model.decoder must be a group of settings, not 'lean'"),
        ("model", {"decoder": {"layuot": "lean"}}, "model.decoder.layuot is not.*did you mean 'layout'"),
        ("model", {"kind": "efficent-morl"}, "did you mean 'efficient-morl'"),
        ("train", {"num_steps": "3 linaer 50%:1"}, "train.num_steps: '3 linaer 50%:1' is not a schedule"),
        (
            "train",
            {"num_steps": [3, 1]},
            r"train.num_steps must be a number or the text of a schedule, not \[3, 1\]",
        ),
        (
            "train",
            {"num_steps": True},
            "train.num_steps must be a number or the text of a schedule, not True",
        ),
        ("train", {"num_steps": -1}, "train.num_steps must never be below 0, as in '-1'"),
        ("train", {"steps": 0}, "train.steps must be at least 1"),
        ("train", {"batch_size": 3, "devices": 2}, "cannot be shared by 2 devices"),
        ("train", {"learning_rate": -1e-3}, "train.learning_rate must never be below 0, as in '-0.001'"),
        ("model", {"slot_size": 0}, "model.slot_size must be at least 1"),
        ("model", {"decoder": {"channels": 0}}, "model.decoder.channels must be at least 1"),
        ("model", {"encoder": {"channels": 1}}, "model.encoder.channels must be at least 2"),
        ("model", {"inference": {"sharpness": 0.0}}, "model.inference.sharpness must be more than 0"),
        ("model", {"objective": {"sigma": -1}}, "model.objective.sigma must always be above 0"),
        ("model", {"objective": {"sigma": "1 linear 10:0"}}, "sigma must always be above 0.*'1 linear 10:0'"),
        ("model", {"objective": {"kl_weight": "1 10:-1"}}, "model.objective.kl_weight must never be below 0"),
        ("model", {"objective": {"presence": -1}}, "model.objective.presence must never be below 0"),
        ("model", {"objective": {"area_price": -1}}, "model.objective.area_price must never be below 0"),
        ("model", {"objective": {"colour_price": -1}}, "model.objective.colour_price must never be below 0"),
        (
            "model",
            {"objective": {"foreground_price": -1}},
            "model.objective.foreground_price must never be below 0",
        ),
        ("model", {"objective": {"block": 0}}, "model.objective.block must be at least 1"),
        ("model", {"objective": {"busy": 0.5}}, "busy is a share below 1, of pixels in blocks of at least 2"),
        ("model", {"objective": {"block": 2}}, "block = 2 needs --model.decoder.layout pixels"),
        ("data", {"test_size": 0}, "data.test_size must be at least 1"),
        ("data", {"seed": 1.5}, "data.seed must be of type int"),
        ("trian", {}, "trian is not a group.*did you mean 'train'"),
    ],
)
def test_mistakes_name_the_culprit(group: str, changes: dict[str, Any], message: str) -> None:
    values = PRESETS["efficient-morl/tetrominoes-tiny"].to_dict()
    values[group] = {**values.get(group, {}), **changes}
    with pytest.raises(UserError, match=message):
        RunConfig.from_dict(values)


def test_left_out_fields_keep_defaults_and_integers_are_numbers() -> None:
    objective = {"sigma": 1, "nll_weight": 2}
    run = RunConfig.from_dict({"model": {"kind": "efficient-morl", "objective": objective}})
    assert run.model.objective.sigma == Schedule.parse(1.0)
    assert run.model.objective.nll_weight == 2.0
    assert isinstance(run.model.objective.nll_weight, float)
    assert run.model.objective == replace(ObjectiveConfig(), sigma=Schedule.parse(1), nll_weight=2.0)
    assert run.train == TrainConfig()


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "must hold a JSON object"),
                                               ('{"model": {}}', "model.kind")])  # fmt: skip
def test_broken_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        RunConfig.read(path)
    assert str(path) in str(error.value)
    with pytest.raises(UserError, match="Cannot read"):
        RunConfig.read(tmp_path / "absent.json")


@pytest.mark.parametrize("changes", [{"refine_layers": 10**9}, {"refine_sizes": [1] * 1000}])
def test_models_of_too_many_layers_are_refused_before_they_are_built(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"model.{next(iter(changes))}.* 100"):
        RunConfig.from_dict({"model": {"kind": "iodine", **changes}})
