"""Tables of results: means over seeds, the paper's values and steps beside ours, and what is missing."""

from __future__ import annotations

import pytest

from emorl.experiments.base import Experiment
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import count, provenance, results_table, summary
from emorl.report.paper import Published

ROWS = [Row("a", {"ari": 0.9 + 0.02 * s, "mse": 1e-3}, seed=s, steps=2000) for s in (0, 1)]
ROWS.append(Row("b", {"ari": 0.5}, steps=20))


def test_summary() -> None:
    one, other = summary(ROWS, ("ari", "mse"))
    assert one["ari"] == (pytest.approx(0.91), pytest.approx(0.0141421, abs=1e-6))
    assert (one["seeds"], one["steps"]) == (2, 2000)
    assert "mse" not in other


def test_the_table_has_the_steps_behind_both_numbers() -> None:
    experiment = Experiment(
        "x", None, ("ari", "mse"),
        published={"a": {"ari": Published(0.95, 0.01)}, "c": {"ari": Published(0.1, 0)}},
        published_steps={"a": 200_000, "c": 300_000},
    )  # fmt: skip
    table = results_table(experiment, Result("x", ROWS), ["d", "a", "b"])
    assert table.splitlines() == [
        "|  | seeds | steps | ARI | paper: ARI | MSE (× 10⁻⁴) | paper: steps |",
        "|---|---|---|---|---|---|---|",
        "| d |  |  | not run yet |  |  |  |",
        "| a | 2 | 2 000 | 0.910 ± 0.014 | 0.950 ± 0.010 | 10.0 ± 0.0 | 200 000 |",
        "| b | 1 | 20 | 0.500 |  |  |  |",
        "| c |  |  | not run | 0.100 ± 0.000 |  | 300 000 |",
    ]


def test_what_was_not_trained_has_neither_seeds_nor_steps() -> None:
    experiment = Experiment("x", None, ("ari",))
    assert results_table(experiment, Result("x", [Row("a", {"ari": 1.0})])).splitlines()[0] == "|  | ARI |"


def test_provenance_in_words() -> None:
    rows = [Row("a", {}), Row("b", {}, stamp={"commit": None})]
    stamp = {"commit": "0123456789abcdef", "cpu": "a machine"}
    assert provenance(Result("x", rows[:1], stamp)) == "Measured with commit 0123456789 on a machine."
    assert provenance(Result("x", rows[1:])) == "Recorded before provenance: commit unknown."
    both = provenance(Result("x", rows, stamp, outdated="the preset has changed."))
    assert both.endswith("Some rows were recorded before provenance: commit unknown. "
                         "Not of today's settings: the preset has changed.")  # fmt: skip


def test_counts() -> None:
    assert [count(n) for n in (None, 5, 14_000, 1_000_000)] == ["", "5", "14 000", "1 000 000"]
