"""Speed: a stopped measurement goes on, and what is said of it follows from what was measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from emorl.evaluation.cost import Cost, Pass
from emorl.experiments import speed
from emorl.experiments.base import Job
from emorl.experiments.results import Result, Row
from emorl.experiments.runner import reproduce
from emorl.experiments.speed_limits import kernel_speeds, page_costs, time_shares
from emorl.experiments.speed_page import largest_batch, line, ratios, sections, targets
from emorl.models import build
from emorl.runs.presets import PRESETS
from tiny import TINY


def test_line_and_largest_batch() -> None:
    fit = line({"1": 3.0, "2": 5.0, "4": 9.0})
    assert fit == pytest.approx({"slope": 2, "intercept": 1, "worst_distance": 0})
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

    def fake_keep() -> bool:
        names.append("keep")
        return True

    monkeypatch.setattr(speed, "keep_freed_memory", fake_keep)  # for good: other tests share this process
    monkeypatch.setattr(speed, "is_memory_kept", lambda: "keep" in names)
    monkeypatch.setattr(speed, "can_compile", lambda: True)
    monkeypatch.setattr(speed, "costs", fake_costs)
    monkeypatch.setattr(speed, "peak_memory", fake_memory)
    return names


def test_limits_are_measured() -> None:
    conv = nn.Conv2d(4, 6, 3)
    speeds = kernel_speeds(conv, count=2, size=20, repeats=1)
    assert list(speeds) == ["forward", "gradient of the input", "gradient of the weights"]
    assert min(speeds.values()) > 0
    one = Pass(partial(build, PRESETS[TINY].model), 2, training=True)
    shares = time_shares(one, one.make())
    assert sum(shares.values()) == pytest.approx(1)
    assert 0 < shares["convolutions"] < 1
    assert all(cost > 0 for cost in page_costs(2))


def measured(done: list[Row]) -> list[Row]:
    return list(speed.measure(Job(scale="tiny", done=done)))


def test_a_stopped_measurement_goes_on(asked: list[str]) -> None:
    rows = measured([])
    assert rows[0].label == "training, CLEVR6, I=3, glibc's defaults: ours"
    assert rows[0].values["ms"] == 1000
    assert rows[0].values["repeats"] == 2
    asked.clear()
    assert measured(rows) == rows
    assert asked == ["keep"]  # nothing was left to do
    asked.clear()
    without = [row for row in rows if row.label != "memory: ours, I=5"]
    assert measured(without) == rows
    assert asked == ["keep", "memory"]


def test_defaults_are_measured_before_memory_is_kept(asked: list[str]) -> None:
    rows = {row.label: row.values for row in measured([]) if "ms" in row.values}
    defaults = [label for label in asked if "defaults" in label]
    assert asked.index("keep") == len(defaults) == 11
    for label, values in rows.items():
        assert values["freed memory"] == ("given back" if label in defaults else "kept")
    assert {label.replace(", glibc's defaults", "") for label in defaults} <= set(rows)


def test_without_a_compiler_the_rest_is_measured(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "can_compile", lambda: False)
    result = Result("speed", measured([]))
    assert not any("compiled" in row.label for row in result.rows)
    assert not any("compiled" in one.what for one in targets(result))


def test_what_was_measured_before_an_interruption_is_kept(asked: list[str], tmp_path: Path) -> None:
    def interrupted(passes: list[Pass]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "peak_memory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reproduce("speed", scale="tiny", folder=tmp_path, say=lambda message: None)
    asked.clear()
    result = reproduce("speed", scale="tiny", folder=tmp_path, say=lambda message: None)
    assert set(asked) == {"keep", "memory"}  # times were there
    assert result.stamp["cpu"]
    assert {"load", "threads", "allocator"} <= set(result.stamp)
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["speed.json"]


def test_targets_follow_from_rows(asked: list[str]) -> None:
    result = Result(
        "speed", measured([]), stamp={"commit": "abc", "cpu": "Abacus", "load": 0.5, "threads": 1}
    )
    found = {target.what: target for target in targets(result)}
    shapes = found["training step, Tetrominoes, I=3: times faster than reference"]
    assert (shapes.measured, shapes.bound, shapes.is_met) == (2.0, 2.8, False)
    assert found["test time, CLEVR6, I=0: times faster than reference"].measured == 4
    assert not found["training memory, CLEVR6, I=3: share of reference"].is_met
    pages = sections(result)
    text = pages["docs/efficiency.md#speed"]
    assert "commit abc on Abacus. Load 0.5, 1 thread, allocator: as it comes." in text
    assert (
        "| training step, Tetrominoes, I=3: times faster than reference | 2.00 | at least 2.8 | no |" in text
    )
    assert (
        "| training step, CLEVR6, I=3 | 2.0 times as fast | 2.0 times as fast |"
        in pages["docs/efficiency.md#short"]
    )


def test_ratios_tell_the_ways_of_memory_apart(asked: list[str]) -> None:
    rows = [
        replace(row, values={**row.values, "ms": 3 * row.values["ms"]})
        if row.label.endswith("defaults: reference")
        else row
        for row in measured([])
    ]
    clevr = next(one for one in ratios(Result("speed", rows)) if "CLEVR6" in one.what)
    assert (clevr.kept, clevr.defaults, clevr.usual) == (2, 6, 6)
