"""Runs in groups, their names, the presets they are close to, and numbers written for people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import emorl.cli.train
from emorl.cli import main
from emorl.cli.report import display_names
from emorl.evaluation.evaluate import Scores
from emorl.evaluation.metrics import METRICS
from emorl.models import MODELS
from emorl.report.groups import Scored, differences, groups_of, shortened, written
from emorl.report.nearest_preset import nearest_preset, system_of, title_of_system, training_command
from emorl.report.paper import PUBLISHED_ABLATIONS, published
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run
from toys import TINY, Greys, Toy, toy_run


@pytest.fixture
def toy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy", Toy)


def scored(name: str, ari: float, **train: Any) -> Scored:
    values = {"ari": torch.tensor([[ari, ari + 0.2]]), "mse": torch.ones(1, 2)}
    return Scored(toy_run(name, **train), Greys(), Scores(values, {"images": 2, "num_slots": 2}))


@pytest.mark.usefixtures("toy_model")
def test_runs_that_differ_in_their_seed_are_one_group() -> None:
    several = [scored("a", 0.5, seed=0), scored("b", 0.7, seed=1), scored("c", 0.1, batch_size=8)]
    groups = groups_of(several)
    assert [len(group.members) for group in groups] == [2, 1]
    assert groups[0].label == "batch size 4"
    assert groups[1].label == "c"
    assert groups[0].value("ari") == pytest.approx((0.7, 0.1414), abs=1e-3)  # sd over runs
    assert groups[1].value("ari") == pytest.approx((0.2, 0.1))  # standard error over images
    assert differences([one.settings for one in several]) == ["train.batch_size"]


def test_numbers_are_written_for_people() -> None:
    assert METRICS["mse"].text(7e-4, 6e-4) == "7.0 ± 6.0"
    assert METRICS["ari"].text(0.98249) == "0.982"
    assert written(200_000) == "200\u202f000"
    assert written([[0, 3], [100_000, 1]]) == "0, 3, 100\u202f000, 1"
    assert (written(None), written(True), written(())) == ("–", "yes", "none")
    assert shortened(["x" * 40, "y"], 10) == ["…" + "x" * 9, "y"]
    assert shortened(["a" + "x" * 40, "b" + "x" * 40], 4) == ["axx…", "bxx…"]
    long = ["x" * 9 + "a" + "x" * 9, "x" * 9 + "b" + "x" * 9]
    assert shortened(long, 4) == long  # nothing shorter would tell them apart


def test_runs_have_the_shortest_names_that_tell_them_apart(tmp_path: Path) -> None:
    runs = [tmp_path / name / seed for name in ("iodine", "monet") for seed in ("seed-0", "seed-1")]
    for run in runs:
        run.mkdir(parents=True)
    names = list(map(str, runs))
    assert display_names(names[:2]) == ["seed-0", "seed-1"]
    assert display_names(names[::2]) == ["iodine", "monet"]
    assert display_names(names) == ["iodine/seed-0", "iodine/seed-1", "monet/seed-0", "monet/seed-1"]


@pytest.mark.usefixtures("toy_model")
def test_how_far_training_has_come(tmp_path: Path) -> None:
    one = scored("a", 0.5, seed=0, steps=20_000)
    assert one.steps == "20\u202f000"  # nothing is known of its training
    (tmp_path / "metrics.jsonl").write_text('{"step": 99}\n')
    assert replace(one, run=replace(one.run, directory=tmp_path)).steps == "100 of 20\u202f000"


def test_published_numbers_are_found_by_model_and_data() -> None:
    ours = published("efficient-morl", "tetrominoes")
    assert {name: value[:2] for name, value in ours.items()} == {
        "ari": (0.982, 0.018), "mse": (7e-4, 6e-4), "kl": (98.5, 21.4)
    }  # fmt: skip
    assert published("toy", "tetrominoes") == {}
    assert PUBLISHED_ABLATIONS["full", "tetrominoes"]["ari"].mean == 0.979


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("genesis")])
def test_genesis_s_is_not_called_genesis(name: str) -> None:
    assert system_of(PRESETS[name]) == name.split("/")[0]
    changed = replace(PRESETS[name], model=replace(PRESETS[name].model, num_slots=9))
    assert (
        title_of_system(changed)
        == {"genesis": "GENESIS", "genesis-s": "GENESIS-S", "genesis-v2": "GENESIS-V2"}[name.split("/")[0]]
    )


def test_the_command_of_a_run_trains_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(PRESETS[TINY], train=replace(PRESETS[TINY].train, steps=12, seed=1))
    run = Run(str(tmp_path / "a"), config, tmp_path / "a", tmp_path / "none")
    assert nearest_preset(config) == TINY
    wanted = []
    monkeypatch.setattr(emorl.cli.train, "train", lambda config, out, resume: wanted.append(config))
    main(training_command(run).split()[1:])
    assert wanted == [config]
    strange = replace(config, train=replace(config.train, compile=True))  # a flag is no value to write down
    assert "config.json" in training_command(replace(run, config=strange))
