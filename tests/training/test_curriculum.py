"""The published learning rate, and the number of refinements as a function of the step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from emorl.runs.config import TrainConfig
from emorl.runs.directory import read_metrics
from emorl.schedules import Schedule
from emorl.training import trainer
from emorl.training.curriculum import Curriculum
from helpers import present
from tiny import assert_same, tiny


def test_learning_rate_is_the_published_one() -> None:
    rate = TrainConfig().learning_rate
    assert rate.at(0, 300_000) == 0
    assert rate.at(5000, 300_000) == pytest.approx(2e-4)
    assert rate.at(10_000, 300_000) == pytest.approx(4e-4)
    assert rate.at(110_000, 300_000) == pytest.approx(2e-4)
    assert rate.at(510_000, 600_000) == pytest.approx(4e-4 / 32)


def test_curriculum_switches_at_its_step(tmp_path: Path) -> None:
    schedule = Curriculum(Schedule.parse("3 4:1"), 0.0, 100)
    assert [schedule.num_steps(step) for step in (0, 3, 4, 99)] == [3, 3, 1, 1]
    trainer.train(tiny(num_steps=Schedule.parse("2 3:0"), log_every=1), tmp_path)
    assert [record["num_steps"] for record in read_metrics(tmp_path)] == [2, 2, 2, 0, 0, 0]


def test_curriculum_drops_refinements_that_do_little() -> None:
    curriculum = Curriculum(Schedule.parse(3), 0.5, 1000)
    huge = {f"update_{i}": torch.tensor(50.0) for i in (1, 2, 3)}
    large = {f"update_{i}": torch.tensor(1.0) for i in (1, 2, 3)}
    small = {"update_1": torch.tensor(3.0), "update_2": torch.tensor(0.3), "update_3": torch.tensor(0.1)}
    curriculum.update(3, huge)  # an untrained network is not the measure
    for step in range(900):
        curriculum.update(curriculum.num_steps(step), large)
    assert curriculum.num_steps(900) == 3
    seen = []
    for step in range(600):
        seen.append(present(curriculum.num_steps(step)))
        curriculum.update(seen[-1], small)
    assert sorted(seen, reverse=True) == seen
    assert set(seen) == {3, 2, 1}  # one at a time, and never the last
    assert seen.count(3) > 30  # a moving average, not one lucky batch
    never = Curriculum(Schedule.parse(3), 0.0, 1000)
    for step in range(600):
        never.update(never.num_steps(step), small)
    assert never.num_steps(600) == 3
    assert Curriculum(Schedule.parse(0), 0.5, 1000).num_steps(0) == 0


def test_an_automatic_curriculum_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curriculum, "SETTLED", 0)
    run = tiny(num_steps=Schedule.parse(3), drop_below=10.0, log_every=1, steps=12)
    trainer.train(run, tmp_path / "whole")
    budgets = [record["num_steps"] for record in read_metrics(tmp_path / "whole")]
    assert budgets == [3, 2, *[1] * 10]
    trainer.train(replace(run, train=replace(run.train, steps=3)), tmp_path / "parts")
    trainer.train(run, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")
