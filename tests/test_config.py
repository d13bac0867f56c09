"""Configs: what goes to JSON comes back, and mistakes name their culprit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emorl.errors import UserError
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets import PRESETS


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
        ("model", {"likelihood": "gmm"}, "model.likelihood must be one of 'gaussian', 'mixture', not 'gmm'"),
        ("model", {"num_slots": "four"}, "model.num_slots must be of type int, not 'four'"),
        ("model", {"num_slots": True}, "model.num_slots must be of type int, not True"),
        ("model", {"geco": {"taget": 1}}, "model.geco.taget is not a setting.*did you mean 'target'"),
        ("model", {"geco": {"target": "atuo"}}, "model.geco.target must be of type float, not 'atuo'"),
        ("model", {"geco": 3}, "model.geco must be a group of settings"),
        ("model", {"kind": "efficent-morl"}, "did you mean 'efficient-morl'"),
        ("train", {"curriculum": [[0, 3], [5]]}, r"train.curriculum\[1\] must have 2 entries"),
        ("train", {"curriculum": 3}, "train.curriculum must be a list"),
        ("train", {"curriculum": [[5, 3]]}, "begin at step 0"),
        ("train", {"steps": 0}, "train.steps must be at least 1"),
        ("train", {"batch_size": 3, "devices": 2}, "cannot be shared by 2 devices"),
        ("train", {"learning_rate": 0.0}, "train.learning_rate must be more than 0"),
        ("model", {"slot_size": 0}, "model.slot_size must be at least 1"),
        ("model", {"decoder_channels": 0}, "model.decoder_channels must be at least 1"),
        ("model", {"likelihood_sigma": -1.0}, "model.likelihood_sigma must be more than 0"),
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
    run = RunConfig.from_dict({"model": {"kind": "efficient-morl", "likelihood_sigma": 1}})
    assert run.model.likelihood_sigma == 1.0
    assert isinstance(run.model.likelihood_sigma, float)
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
