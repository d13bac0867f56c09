"""Many visitors at once: each is served, and memory stays where it was."""

from __future__ import annotations

import asyncio
import sys

import pytest

from emorl.experiments.base import Job
from emorl.experiments.explorer import EXPERIMENT, Trial, crowd, measure, serving
from emorl.experiments.results import Result

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")


def test_the_measurement_runs_and_becomes_a_table() -> None:
    rows = list(measure(Job(scale="tiny")))
    assert [row.label.split(":")[0] for row in rows] == ["alone", "3 visitors"]
    assert all(row.values["edits"] > 0 < row.values["cpu_ms"] for row in rows)
    assert EXPERIMENT.sections is not None
    (text,) = EXPERIMENT.sections(Result("explorer", rows)).values()
    assert "3 visitors at once dragged for 1 seconds" in text


@pytest.mark.slow
def test_fifty_visitors_for_a_minute_and_nobody_is_left_out() -> None:
    with serving() as served:
        # Memory grows in the first minute, to what fifty sessions need, and must not go on growing.
        asyncio.run(crowd(served, Trial()))
        found = asyncio.run(crowd(served, Trial()))
    assert found["least_edits"] > 0.6 * found["most_edits"]
    assert found["memory_after"] - found["memory_opened"] < 100
