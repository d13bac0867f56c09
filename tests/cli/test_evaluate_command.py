"""emorl evaluate, each in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from PIL import Image

from emorl.evaluation.metrics import METRICS, shown_first
from emorl.runs.presets import PRESETS
from emorl.runs.run import FOLDER
from emorl.training.trainer import train
from toys import SHIPPED, TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, however badly."""
    directory = tmp_path_factory.mktemp("runs") / "tiny"
    train(PRESETS[TINY], directory)
    return directory


def test_evaluate_prints_json(run: Path, emorl: Callable[..., CompletedProcess[str]]) -> None:
    options = ["--slots", 5, "--steps", 0, "--images", 6, "--seed", 3]
    result = emorl("evaluate", run, "--json", *options)
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)
    assert {"ari", "mse", "nll", "kl_hierarchical", "kl"} <= set(scores)
    assert (scores["images"], scores["num_slots"], scores["num_steps"], scores["seed"]) == (6, 5, 0, 3)
    saved = json.loads((run / "scores.json").read_text())
    assert saved["ari"] == scores["ari"]
    assert [len(values) for values in saved["per_image"]["ari"]] == [6]
    assert json.loads(emorl("evaluate", run, "--json", *options).stdout) == scores  # the seed decides


def test_evaluate_says_first_what_a_person_wants(
    run: Path, tmp_path: Path, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    result = emorl("evaluate", run, "--images", 3, "--picture", "pictures/scenes.png")
    assert result.returncode == 0, result.stderr
    *lines, settings = result.stdout.splitlines()
    titles = ["ARI", "ARI with background", "Mean IoU", "MSE (× 10⁻⁴)", "Slots used"]
    assert [re.split(r"\s{2,}", line)[0] for line in lines] == titles
    assert all(METRICS[name].meaning in line for name, line in zip(shown_first(METRICS), lines, strict=True))
    assert "images 3  num_slots 4" in settings
    with Image.open(tmp_path / "pictures" / "scenes.png") as picture:
        assert picture.width > 7 * 100  # image, reconstruction, segmentation, four slots
        assert picture.height > 8 * 100
    everything = emorl("evaluate", run, "--images", 3, "--all").stdout.splitlines()
    assert [line.split() for line in everything[:5]] == [line.split() for line in lines]
    assert [line.startswith("KL (nats)") for line in everything].count(True) == 1


def test_evaluate_measures_disentanglement(
    emorl: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    card = FOLDER / SHIPPED
    directory = tmp_path / "run"  # a directory, so that there is a scores.json
    directory.mkdir()
    shutil.copy(card.with_suffix(".safetensors"), directory / "weights.safetensors")
    (directory / "config.json").write_text(
        json.dumps(json.loads(card.with_suffix(".json").read_text())["config"])
    )
    result = emorl("evaluate", directory, "--images", 100, "--dci", "fast", "--json")
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)
    assert 0.5 < scores["dci_disentanglement"] < 1
    assert scores["dci_objects"] > 200
    assert scores["dci_trees"] == "fast"
    assert 0.9 < scores["ari"] <= 1
    saved = json.loads((directory / "scores.json").read_text())
    assert {name: saved[name] for name in scores if name.startswith("dci_")} == {
        name: value for name, value in scores.items() if name.startswith("dci_")
    }
    assert saved["stamp"]["torch"]
