"""The loop: exact resumption, several processes, non-finite steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

from emorl.errors import UserError
from emorl.geco import GecoConfig
from emorl.models import build
from emorl.models.efficient_morl_config import EfficientMORLConfig
from emorl.runs.checkpoint import read_checkpoint
from emorl.runs.config import RunConfig
from emorl.runs.directory import CHECKPOINT, PREVIOUS, WEIGHTS, read_metrics
from emorl.runs.presets import PRESETS
from emorl.runs.run import load
from emorl.schedules import Schedule
from emorl.training import trainer
from tiny import TINY, assert_same, poisoned, tiny, weights


def with_geco(model: EfficientMORLConfig, geco: GecoConfig) -> EfficientMORLConfig:
    return replace(model, objective=replace(model.objective, geco=geco))


def test_a_run_directory_is_complete(tmp_path: Path) -> None:
    model = trainer.train(tiny(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json", "environment.json", "history.jsonl", "metrics.jsonl", CHECKPOINT, PREVIOUS, WEIGHTS
    }  # fmt: skip
    assert RunConfig.read(tmp_path / "config.json") == tiny()
    last = read_metrics(tmp_path)[-1]
    assert {
        "step",
        "loss",
        "nll",
        "kl_hierarchical",
        "kl",
        "grad_norm",
        "skipped",
        "validation_ari",
    } <= set(last)
    loaded = load(tmp_path)
    assert all(torch.equal(t, loaded.state_dict()[name]) for name, t in model.state_dict().items())


def test_the_seed_determines_the_weights(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path / "a")
    trainer.train(
        tiny(evaluate_every=2, evaluate_images=3, log_every=1), tmp_path / "b"
    )  # watching changes nothing
    trainer.train(tiny(seed=1), tmp_path / "c")
    assert_same(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / WEIGHTS).read_bytes() != (tmp_path / "c" / WEIGHTS).read_bytes()


@pytest.mark.slow  # compiling takes a minute
@pytest.mark.filterwarnings("default")  # the compiler trips over warnings of its own
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("system", ["efficient-morl", "slot-attention"])
def test_compiled_training_learns_the_same(system: str, tmp_path: Path) -> None:
    run = PRESETS[f"{system}/tetrominoes-tiny"]
    torch._dynamo.utils.counters.clear()
    for name in ("plain", "compiled"):
        settings = replace(run.train, steps=4, log_every=1, compile=name == "compiled")
        trainer.train(replace(run, train=settings), tmp_path / name)
    losses = [[line["loss"] for line in read_metrics(tmp_path / name)] for name in ("plain", "compiled")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0  # something was compiled


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_resuming_is_exact_in_one_process(tmp_path: Path, optimizer: str) -> None:
    run = tiny(optimizer=optimizer)
    run = replace(run, model=with_geco(run.model, GecoConfig(target_mse=0.01, warm_up=2, step_size=1e-3)))
    trainer.train(run, tmp_path / "whole")
    half = replace(run, train=replace(run.train, steps=3))
    trainer.train(half, tmp_path / "parts")
    trainer.train(run, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert weights(tmp_path / "whole")["geco.zeta"] > 0.55


def test_two_processes_equal_one(
    tmp_path: Path,
    emorl: Callable[..., CompletedProcess[str]],
    fresh_emorl: Callable[..., CompletedProcess[str]],
) -> None:
    options = ["--train.steps", 5, "--train.accelerator", "cpu", "--train.learning-rate", 1e-4]
    options += ["--train.optimizer", "adam"]
    one = emorl("train", TINY, "--out", "one", *options)
    assert one.returncode == 0, one.stderr
    two = fresh_emorl("train", TINY, "--out", "two", *options, "--train.devices", 2)
    assert two.returncode == 0, two.stderr
    a, b = weights(tmp_path / "one"), weights(tmp_path / "two")
    for found in (a, b):
        # Softmax over slots ignores the bias of the mask logits: its gradient is rounding error, which Adam enlarges.
        found["decoder.rest.7.bias"][12:] = 0
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=1e-5, msg=name)
    torch.manual_seed(0)
    started = build(PRESETS[TINY].model).state_dict()
    assert any((a[name] - started[name]).abs().max() > 1e-4 for name in a)  # it did train


def test_a_trained_model_has_the_values_of_schedules_at_the_end(tmp_path: Path) -> None:
    presence = Schedule.parse("0 linear 2:4 100%:1")
    run = tiny()
    objective = replace(run.model.objective, presence=presence)
    model = trainer.train(replace(run, model=replace(run.model, objective=objective)), tmp_path / "run")
    assert model.schedules["presence"].at(run.train.steps - 1, run.train.steps) == 4
    assert float(model.get_buffer("presence")) == 1
    assert float(load(tmp_path / "run").get_buffer("presence")) == 1


def test_non_finite_steps_are_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "endless", poisoned({2, 4}))
    run = tiny(log_every=1)
    run = replace(run, model=with_geco(run.model, GecoConfig(target_mse=0.01, warm_up=0)))
    model = trainer.train(run, tmp_path)
    assert [record["skipped"] for record in read_metrics(tmp_path)] == [0, 0, 1, 1, 2, 2]
    assert read_metrics(tmp_path)[2]["loss"] is None
    assert all(t.isfinite().all() for t in model.state_dict().values())


def test_a_diverged_run_stops_and_keeps_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "endless", poisoned(set(range(3, 100))))
    monkeypatch.setattr(trainer, "MAX_SKIPPED", 2)
    with pytest.raises(UserError, match=r"Training diverged.*learning-rate") as caught:
        trainer.train(tiny(), tmp_path)
    assert "--resume" not in str(caught.value)  # it would diverge again
    assert read_checkpoint(tmp_path / CHECKPOINT)["progress"]["step"] == 3
