"""Results: their one format, whether they are of today's settings, and what is committed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.experiments import EXPERIMENTS
from emorl.experiments.documents import read_results
from emorl.experiments.queue import is_finished
from emorl.experiments.results import Result, Row, identity, merged, run_label, stale
from emorl.experiments.runner import state
from emorl.experiments.scales import changed
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run
from emorl.schedules import Schedule

RESULTS = read_results(ROOT)
FAST = PRESETS["efficient-morl/tetrominoes-plain"]


def row(**changes: Any) -> Row:
    return replace(Row("a", {"ari": 0.5}, config=FAST.to_dict(), scenes="test", steps=14_000), **changes)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    curve = [{"step": 1, "ari": 0.1}]
    rows = [row(curve=curve), row(seed=1, cpu_minutes=3.5), Row("b", {"ms": 1}, stamp={"commit": "earlier"})]
    result = Result("table-1", rows, {"commit": "today"}, settings={"repeats": 3}, outdated="for a test")
    result.write(tmp_path / "a.json")
    read = Result.read(tmp_path / "a.json")
    assert read == replace(result, rows=read.rows)
    assert [replace(one, config=None) for one in read.rows] == [replace(one, config=None) for one in rows]
    assert RunConfig.from_dict(read.rows[0].config or {}) == FAST
    assert [read.stamp_of(one)["commit"] for one in read.rows] == ["today", "today", "earlier"]
    (tmp_path / "b.json").write_text('{"rows": [{"what": 1}]}')
    with pytest.raises(UserError, match=r"b.json is not a result"):
        Result.read(tmp_path / "b.json")


def test_identity_is_what_is_computed() -> None:
    same = {
        "train.seed": 3,
        "train.log_every": 7,
        "train.evaluate_images": 9,
        "train.devices": 2,
        "data.path": "x",
    }
    for name, value in same.items():
        assert identity(changed(FAST, {name: value})) == identity(FAST), name
    other = {
        "train.learning_rate": Schedule.parse(1),
        "train.steps": 5,
        "model.num_slots": 9,
        "data.seed": 1,
        "model.objective.geco.rate": 0.5,
    }
    for name, value in other.items():
        assert identity(changed(FAST, {name: value})) != identity(FAST), name


def test_stale_rows_are_found() -> None:
    result = Result("x", [row(), row(label="a, more"), Row("b", {})])
    assert stale(result, {"a": FAST}) == []  # nothing is known of b
    assert stale(result, {"a": changed(FAST, {"train.log_every": 3})}) == []
    assert stale(result, {"a": changed(FAST, {"train.learning_rate": Schedule.parse(3)})}) == ["a", "a, more"]
    assert stale(result, {"c": FAST}) == ["a", "a, more"]  # the experiment has no such row any more


def test_states() -> None:
    label = "EfficientMORL (long), CLEVR6"
    clevr = PRESETS["efficient-morl/clevr6-long"]
    current = Result("figure-6", [row(label=label, config=clevr.to_dict())], {"commit": "1"})
    assert state("figure-6", current) == "current"
    assert state("figure-6", replace(current, stamp={"commit": None})) == "recorded before provenance"
    old = row(label=label, config=changed(clevr, {"model.num_slots": 9}).to_dict())
    assert state("figure-6", replace(current, rows=[old])) == f"stale: {label}"
    assert state("figure-6", None) == "not run"


def test_rows_belong_to_the_longest_label() -> None:
    """Figure 7 has several rows of each run, whose labels continue the run's."""
    assert run_label("I=1, as trained, I=3", ["I=1", "I=3"]) == "I=1"
    assert run_label("full, x", ["full", "full, x"]) == "full, x"
    assert run_label("fuller", ["full"]) is None
    earlier = Result(
        "x", [Row(label, {}) for label in ("I=1, as trained", "I=3, as trained", "gone")], {"commit": "0"}
    )
    new = [Row("I=3, now", {})]
    assert [one.label for one in merged(new, earlier, ["I=1", "I=3"])] == ["I=1, as trained", "I=3, now"]


# What is committed


def test_every_result_is_of_an_experiment() -> None:
    names = {path.stem for path in (ROOT / "results").glob("*.json")}
    assert names == set(RESULTS)
    assert all(result.experiment == name for name, result in RESULTS.items())


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_claim_to_be_current_are(name: str) -> None:
    """A result whose settings are no longer today's is measured again, or says why it stays (`outdated`)."""
    wanted = {one.label: one.config for one in EXPERIMENTS[name].runs("cpu")}
    assert RESULTS[name].outdated or stale(RESULTS[name], wanted) == []


def alike(a: object, b: object) -> bool:
    """Whether two values differ by no more than the order of their sums does."""
    is_number = isinstance(a, float) and isinstance(b, float)
    return math.isclose(a, b, rel_tol=1e-5) if is_number else a == b  # type: ignore[arg-type]


def contradictions(results: Iterable[Result]) -> list[str]:
    """Where one training has two values of one score on the same scenes, and both claim to know their settings."""
    seen: dict[tuple[object, ...], object] = {}
    found = []
    for result in results:
        for one in result.rows:
            if one.config is None:
                assert not result.has_provenance(one) or one.steps is None
                continue
            key = (identity(RunConfig.from_dict(one.config)), one.seed, one.scenes)
            for score, value in one.values.items():
                if not alike(seen.setdefault((*key, score), value), value):
                    found.append(f"{result.experiment}: {one.label}: {score}")
    return found


def test_one_training_has_one_number() -> None:
    found = contradictions(RESULTS.values())
    assert [text for text in found if not text.endswith("wall_clock_minutes")] == []  # of two trainings alike
    assert contradictions([Result("x", [row()]), Result("y", [row(label="b", values={"ari": 0.6})])]) == [
        "y: b: ari"
    ]


KEPT = sorted((ROOT / "results" / "trained").glob("*/seed-*"))


@pytest.mark.parametrize("directory", KEPT, ids=lambda path: path.parent.name)
def test_kept_runs_are_those_of_the_comparison(directory: Path) -> None:
    assert is_finished(directory, PRESETS[directory.parent.name.replace("--", "/")])


@pytest.mark.slow
@pytest.mark.parametrize("directory", KEPT, ids=lambda path: path.parent.name)
def test_kept_runs_score_as_the_comparison_says(directory: Path) -> None:
    run = Run.open(directory)
    (ari,) = [
        one.values["ari"]
        for one in RESULTS["comparison"].rows
        if one.config and identity(RunConfig.from_dict(one.config)) == identity(run.config)
    ]
    assert evaluate(run.model, run.scenes("test")).mean("ari") == pytest.approx(ari, abs=0.002)
