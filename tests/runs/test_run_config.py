"""Settings of a run, also those that strangers write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emorl.errors import UserError
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.run import Run
from emorl.training import trainer
from tiny import tiny


def test_a_config_from_before_a_setting_existed_means_its_default() -> None:
    values = tiny().to_dict()
    del values["train"]["nodes"]
    assert RunConfig.from_dict(values) == tiny()


def test_settings_have_dotted_names() -> None:
    flat = tiny().flat()
    assert flat["train.steps"] == 6
    assert flat["model.kind"] == "efficient-morl"
    assert flat["model.objective.geco.warm_up"] == 1000
    assert tiny().with_steps(9) == tiny(steps=9)


DAMAGED = {
    "no model": ('{"model": null}', "model must be a group of settings, not None"),
    "kind": ('{"model": {"kind": []}}', r"model\.kind must name a model, not \[\]"),
    "group": ('{"model": {"kind": "iodine"}, "data": 3}', "data must be a group of settings, not 3"),
    "number": ('{"model": {"kind": "iodine"}, "train": {"steps": "x"}}', r"train\.steps must be of type int"),
    "name": ('{"modle": {}}', "did you mean 'model'"),
    "list": ("[]", "must hold a JSON object"),
    "nesting": ("[" * 100_000, "nested too deeply"),
    "nan": (
        '{"model": {"kind": "efficient-morl", "nll_weight": NaN}}',
        r"nll_weight must be a finite number",
    ),
    "text": ("\xff\xfe", "is not JSON"),
    "empty": ("", "is not JSON"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_settings_are_named(tmp_path: Path, damage: str) -> None:
    text, message = DAMAGED[damage]
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=message) as caught:
        Run.open(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["drop_below", "max_grad_norm", "muon_size"])
def test_numbers_of_training_are_finite(name: str, value: float) -> None:
    setting: dict[str, Any] = {name: value}
    with pytest.raises(UserError, match=rf"train\.{name} must be"):
        TrainConfig(**setting)


@pytest.mark.parametrize("name", ["target", "target_mse", "decay", "step_size", "rate"])
def test_numbers_of_models_are_finite(name: str) -> None:
    run = tiny()
    geco = replace(run.model.objective.geco, **{name: float("nan")})
    objective = replace(run.model.objective, geco=geco)
    with pytest.raises(UserError, match=rf"model\.objective\.geco\.{name} must be a finite number, not nan"):
        replace(run, model=replace(run.model, objective=objective))


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_are_those_that_generators_take(seed: int) -> None:
    with pytest.raises(UserError, match=r"train\.seed must be at"):
        TrainConfig(seed=seed)


@pytest.mark.parametrize("name", ["slot_size", "encoder"])
def test_absurd_sizes_are_refused_without_taking_memory(tmp_path: Path, name: str) -> None:
    trainer.train(tiny(steps=1), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    values["model"] |= {"slot_size": 10**30} if name == "slot_size" else {"encoder": {"channels": 10**7}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"differ|No model can be built"):
        _ = Run.open(tmp_path).model
