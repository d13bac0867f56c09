"""The scripts behind the published numbers, and released weights, on a tiny preset."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from emorl.reproduce.jobs import is_finished

from conftest import ROOT
from emorl import evaluate
from emorl.data import open_dataset
from emorl.errors import UserError
from emorl.runs import run as pretrained
from emorl.runs.checkpoint import load_run
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS

TINY = "efficient-morl/tetrominoes-tiny"


def script(name: str, *arguments: object) -> None:
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", *arguments]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    script("seeds", TINY, "--seeds", 0, 1, "--runs", folder / "runs", "--results", folder, "--images", 8)
    return folder


def test_seeds_are_all_reported(runs: Path) -> None:
    results = json.loads((runs / "efficient-morl--tetrominoes-tiny.json").read_text())
    assert [seed["seed"] for seed in results["seeds"]] == [0, 1]
    values = [seed["ari"] for seed in results["seeds"]]
    assert results["summary"]["ari"]["mean"] == pytest.approx(sum(values) / 2)
    assert results["summary"]["ari"]["sd"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert results["seeds"][0]["images"] == 8
    assert [point["step"] for point in results["seeds"][0]["curve"]] == [10, 20]


def test_tables_and_curves_are_made_from_results(runs: Path, tmp_path: Path) -> None:
    readme = module("readme")
    results = json.loads((runs / "efficient-morl--tetrominoes-tiny.json").read_text())
    text = readme.updated("a\n<!-- seeds -->\nold\n<!-- /seeds -->\nb", "seeds", readme.table(results))
    assert "old" not in text
    assert text.count("\n| ") == 5  # header, two seeds, mean, paper
    assert text == readme.updated(text, "seeds", readme.table(results))
    curves = {f"seed {seed['seed']}": seed["curve"] for seed in results["seeds"]}
    readme.learning_curves(curves, tmp_path / "curves.png", goals=readme.PAPER)
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_committed_tables_agree_with_committed_results() -> None:
    readme = module("readme")
    experiments = json.loads(readme.EXPLORATION.read_text())
    text = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    assert readme.updated(text, "exploration", readme.exploration_table(experiments)) == text
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert (
        readme.updated(text, "statistics", readme.dataset_table(json.loads(readme.DATASETS.read_text())))
        == text
    )
    if readme.RESULTS.exists():
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        assert readme.updated(text, "seeds", readme.table(json.loads(readme.RESULTS.read_text()))) == text


@pytest.mark.slow
def test_processes_and_threads_are_compared(tmp_path: Path) -> None:
    options = ["--steps", 4, "--warm-up", 1, "--rounds", 1, "--results", tmp_path / "processes.json"]
    script("processes", TINY, *options)
    results = json.loads((tmp_path / "processes.json").read_text())
    assert len(results["median_seconds_per_step"]) == 2
    assert results["speed_up_of_two_processes"] > 0
    assert all(
        0 <= share < 1 for shares in results["share_of_time_waiting_for_data"].values() for share in shares
    )


def test_released_weights_load_by_name(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script("release", runs / "runs" / "seed-0", "some/model", "--preset", TINY, "--folder", tmp_path)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    assert pretrained.released() == ["some/model"]
    card = pretrained.card_of("some/model")
    assert card["scores"]["images"] == 320
    assert card["scores_without_refinement"]["num_steps"] == 0
    assert card["command"] == f"emorl train {TINY} --out RUN --train.seed 0"
    model, trained = pretrained.load("some/model"), pretrained.load(runs / "runs" / "seed-0")
    assert all(torch.equal(t, trained.state_dict()[name]) for name, t in model.state_dict().items())
    with pytest.raises(UserError, match="did you mean 'some/model'"):
        pretrained.load("some/modle")
    weights = tmp_path / "some" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="damaged"):
        pretrained.load("some/model")


def test_the_committed_comparison_agrees_with_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    comparison, text = module("comparison"), (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = json.loads(comparison.RESULTS.read_text())["rows"]
    for row in rows:
        assert RunConfig.from_dict(row["config"]) == PRESETS[row["preset"]], "train it again"
    for dataset in comparison.DATASETS:
        mine = comparison.on(dataset, rows)
        assert f"<!-- {dataset} -->" in text
        assert not mine or module("readme").updated(text, dataset, comparison.table(dataset, mine)) == text


@pytest.mark.parametrize(
    "directory", sorted((ROOT / "benchmarks" / "trained").glob("*/seed-*")), ids=lambda path: path.parent.name
)
def test_kept_runs_are_those_of_the_comparison(directory: Path) -> None:
    preset = directory.parent.name.replace("--", "/")
    assert is_finished(directory, PRESETS[preset])
    rows = json.loads((ROOT / "benchmarks" / "results" / "comparison.json").read_text())["rows"]
    (ari,) = [row["ari"] for row in rows if row["preset"] == preset]
    model, run = load_run(directory)
    assert evaluate(model, open_dataset(run.data, "test"), images=24).mean("ari") == pytest.approx(
        ari, abs=0.1
    )
