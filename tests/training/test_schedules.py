"""The learning rate and the number of refinements as functions of the step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from emorl.training.schedules import Curriculum, learning_rate

from emorl.runs.config import TrainConfig
from emorl.runs.directory import read_metrics
from emorl.training import trainer
from tiny import assert_same, tiny


def test_learning_rate_is_the_published_one() -> None:
    train = TrainConfig()
    assert learning_rate(0, train) == 0
    assert learning_rate(5000, train) == pytest.approx(2e-4)
    assert learning_rate(10_000, train) == pytest.approx(4e-4)
    assert learning_rate(110_000, train) == pytest.approx(2e-4)
    cosine = replace(train, decay="cosine", steps=20_000)
    assert learning_rate(15_000, cosine) == pytest.approx(2e-4)
    assert learning_rate(20_000, cosine) == pytest.approx(0, abs=1e-12)
    assert learning_rate(99_999, replace(train, decay="none")) == 4e-4


def test_curriculum_switches_at_its_step(tmp_path: Path) -> None:
    schedule = Curriculum(((0, 3), (4, 1)), 0.0)
    assert [schedule.num_steps(step) for step in (0, 3, 4, 99)] == [3, 3, 1, 1]
    trainer.train(tiny(curriculum=((0, 2), (3, 0)), log_every=1), tmp_path)
    assert [record["num_steps"] for record in read_metrics(tmp_path)] == [2, 2, 2, 0, 0, 0]


def test_curriculum_drops_refinements_that_do_little() -> None:
    curriculum = Curriculum(((0, 3),), 0.5)
    huge = {f"update_{i}": torch.tensor(50.0) for i in (1, 2, 3)}
    large = {f"update_{i}": torch.tensor(1.0) for i in (1, 2, 3)}
    small = {"update_1": torch.tensor(3.0), "update_2": torch.tensor(0.3), "update_3": torch.tensor(0.1)}
    curriculum.update(3, huge)  # an untrained network is not the measure
    for step in range(900):
        curriculum.update(curriculum.num_steps(step), large)
    assert curriculum.num_steps(900) == 3
    seen = []
    for step in range(600):
        seen.append(curriculum.num_steps(step))
        curriculum.update(seen[-1], small)
    assert sorted(seen, reverse=True) == seen
    assert set(seen) == {3, 2, 1}  # one at a time, and never the last
    assert seen.count(3) > 30  # a moving average, not one lucky batch
    never = Curriculum(((0, 3),), 0.0)
    for step in range(600):
        never.update(never.num_steps(step), small)
    assert never.num_steps(600) == 3
    assert Curriculum(((0, 0),), 0.5).num_steps(0) == 0


def test_an_automatic_curriculum_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curriculum, "SETTLED", 0)
    run = tiny(curriculum=((0, 3),), drop_below=10.0, log_every=1, steps=12)
    trainer.train(run, tmp_path / "whole")
    budgets = [record["num_steps"] for record in read_metrics(tmp_path / "whole")]
    assert budgets == [3, 2, *[1] * 10]
    trainer.train(replace(run, train=replace(run.train, steps=3)), tmp_path / "parts")
    trainer.train(run, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")
