"""Speed: a stopped measurement goes on, and what is said of it follows from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emorl.evaluation.cost import Cost, Pass
from emorl.experiments import speed
from emorl.experiments.base import Job
from emorl.experiments.results import Result, Row
from emorl.experiments.runner import reproduce
from emorl.experiments.speed import largest_batch, line, sections, targets


def test_line_and_largest_batch() -> None:
    fit = line({"1": 3.0, "2": 5.0, "4": 9.0})
    assert fit == pytest.approx({"slope": 2, "intercept": 1, "worst_deviation": 0})
    memory = {
        "ours, I=3, half the batch": 2**30 * 3.0,
        "ours, I=3": 2**30 * 5.0,
    }  # 1 GiB, and 1 GiB per image
    assert largest_batch(memory, "ours", 4) == pytest.approx(11)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is run; the names of what would be measured are kept."""
    names: list[str] = []

    def fake_costs(group: dict[str, Pass], **options: Any) -> dict[str, Cost]:
        names.extend(group)
        return {who: Cost([1.0 + n], 1e9) for n, who in enumerate(group)}

    def fake_memory(passes: list[Pass]) -> list[int]:
        names.append("memory")
        return [2**20 * (10 + passes[0].batch_size)]

    monkeypatch.setattr(speed, "costs", fake_costs)
    monkeypatch.setattr(speed, "peak_memory", fake_memory)
    return names


def measured(done: list[Row]) -> list[Row]:
    return list(speed.measure(Job(scale="tiny", done=done)))


def test_a_stopped_measurement_goes_on(asked: list[str]) -> None:
    rows = measured([])
    assert rows[0].label == "training, CLEVR6, I=3: ours"
    assert rows[0].values["ms"] == 1000
    assert rows[0].values["repeats"] == 2
    asked.clear()
    assert measured(rows) == rows
    assert asked == []  # nothing was left to do
    without = [row for row in rows if row.label != "memory: ours, I=5"]
    assert measured(without) == rows
    assert asked == ["memory"]


def test_what_was_measured_before_an_interruption_is_kept(asked: list[str], tmp_path: Path) -> None:
    def interrupted(passes: list[Pass]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "peak_memory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reproduce("speed", scale="tiny", folder=tmp_path, say=lambda message: None)
    asked.clear()
    result = reproduce("speed", scale="tiny", folder=tmp_path, say=lambda message: None)
    assert set(asked) == {"memory"}  # times were there
    assert result.stamp["cpu"]
    assert {"load", "threads", "allocator"} <= set(result.stamp)
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["speed.json"]


def test_targets_follow_from_rows(asked: list[str]) -> None:
    result = Result("speed", measured([]))
    found = {target.what: target for target in targets(result)}
    shapes = found["training step, Tetrominoes, I=3: times faster than reference"]
    assert (shapes.measured, shapes.rule, shapes.is_met) == (2.0, "at least 2", True)
    assert not found["training memory, CLEVR6, I=3: share of reference"].is_met
    text = sections(result)["docs/efficiency.md#speed"]
    assert (
        "| training step, Tetrominoes, I=3: times faster than reference | 2.00 | at least 2 | yes |" in text
    )
