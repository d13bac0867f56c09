"""Before the first step: what cannot be trained is refused in one line, and nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emorl.cli import main
from emorl.data import DataConfig
from emorl.errors import UserError
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from emorl.training import trainer
from tiny import TINY, tiny

LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "SLURM_JOB_NAME")

WRONG = {
    "--train.accelerator cuda": "There is no CUDA device here",
    "--train.nodes 2": "train.nodes 2 needs a launcher",
    "--train.learning-rate nan": "'nan' is not a schedule",
    "--train.learning-rate -inf": "'-inf' is not a schedule",
    "--train.drop-below nan": "train.drop_below must be a finite number, not nan.",
    "--train.drop-below inf": "train.drop_below must be a finite number, not inf.",
    "--train.seed -1": "train.seed must be at least 0, not -1.",
    f"--train.seed {2**64}": f"train.seed must be at most {2**64 - 1}, not {2**64}.",
    "--model.objective.nll-weight nan": "model.objective.nll_weight must be a finite number, not nan.",
    "--model.objective.geco.target nan": "model.objective.geco.target must be a finite number, not nan.",
    "--model.objective.geco.decay inf": "model.objective.geco.decay must be a finite number, not inf.",
    "--data.name clevr6": "The model takes images of 35 pixels a side; clevr6 has 96.",
    "--data.name nothing": "There is no data set 'nothing'",
    "--data.path absent": "absent holds no stored scenes",
    "--train.num-steps -1": "train.num_steps must never be below 0",
    "--model.image-size 64": "The model takes images of 64 pixels a side; tetrominoes has 35.",
}


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_setting_leaves_no_trace(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["train", TINY, "--out", "run", *options.split()])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"emorl: {WRONG[options]}")
    assert said.count("\n") == 1
    assert "--resume" not in said
    assert not list(tmp_path.iterdir())


def test_too_few_gpus_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(UserError, match=r"train\.devices is 2, but there are 1 CUDA devices here"):
        trainer.train(tiny(devices=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_models_that_cannot_be_built_are_refused(tmp_path: Path) -> None:
    run = tiny()
    with pytest.raises(UserError, match="No model can be built with these settings"):
        trainer.train(replace(run, model=replace(run.model, slot_size=10**30)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_disk_that_is_full_at_once_does_not_contradict_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was saved: so nothing that was saved is intact, and there is nothing to continue."""

    def fail(*_: object, **__: object) -> None:
        raise UserError("Cannot write x: No space left on device. What was saved before is intact.")

    monkeypatch.setattr(trainer, "save_checkpoint", fail)
    with pytest.raises(UserError) as caught:
        trainer.train(replace(tiny(), data=DataConfig(test_size=1)), tmp_path / "run")
    assert "Nothing was saved yet" not in str(caught.value)
    assert "--resume" not in str(caught.value)


def test_steps_that_the_model_cannot_have_are_refused_at_once(tmp_path: Path) -> None:
    run = PRESETS["slot-attention/tetrominoes-tiny"]
    run = replace(run, train=replace(run.train, num_steps=Schedule.parse("3 5:0")))
    with pytest.raises(
        UserError, match=r"train\.num_steps '3 5:0': The number of steps must be at least 1, not 0"
    ):
        trainer.train(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()
