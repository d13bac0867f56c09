"""Everything that takes a trained run takes that of any model: nothing after training names one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from emorl.cli import main
from emorl.cli.decompose import FILES
from emorl.data import DataConfig, open_dataset
from emorl.panels import to_pixels
from emorl.runs.presets import PRESETS
from emorl.training.trainer import train

SYSTEMS = sorted({name.split("/")[0] for name in PRESETS})


@pytest.fixture(scope="module", params=SYSTEMS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("runs") / request.param
    preset = PRESETS[f"{request.param}/tetrominoes-tiny"]
    train(replace(preset, train=replace(preset.train, steps=4, evaluate_every=2)), directory)
    return directory


def command(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def test_evaluate(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("evaluate", run, "--images", 3, "--json")
    scores = json.loads(capsys.readouterr().out)
    assert {"ari", "mse", "miou", "slots_used"} <= set(scores)


def test_decompose(run: Path, tmp_path: Path) -> None:
    Image.fromarray(to_pixels(open_dataset(DataConfig(), "test")[0].image)).save(tmp_path / "photo.png")
    command("decompose", run, tmp_path / "photo.png", "--out", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "photo").iterdir()} == set(FILES)


@pytest.mark.parametrize("figure", ["decompositions", "posteriors", "traversals", "curves", "activeness"])
def test_figures(run: Path, figure: str, tmp_path: Path) -> None:
    size = () if figure == "curves" else ("--scenes", 2)
    command("figure", figure, run, "--out", tmp_path / "figure.png", *size)
    with Image.open(tmp_path / "figure.png") as picture:
        assert min(picture.size) >= 50


def test_sweep_of_tries(run: Path, tmp_path: Path) -> None:
    command("sweep", "stability", run, "--images", 2, "--out", tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())


@pytest.mark.slow  # test_report.py has the reports of one model
def test_report(run: Path, tmp_path: Path) -> None:
    command("report", run, "--out", tmp_path / "report.html", "--images", 2)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<section") >= 6


@pytest.mark.parametrize("kinds", [("efficient-morl", "slot-attention"), ("slot-attention", "iodine")])
def test_report_of_models_with_different_scores(kinds: tuple[str, str], tmp_path: Path) -> None:
    """A VAE has a KL, an autoencoder has none: the table has the column, and an empty cell."""
    for kind in kinds:
        preset = PRESETS[f"{kind}/tetrominoes-tiny"]
        directory = tmp_path / f"{kind}--with-a-long-name-that-ends-alike" / "seed-0"
        train(replace(preset, train=replace(preset.train, steps=2)), directory)
    page = tmp_path / "report.html"
    command("report", *tmp_path.glob("*/seed-0"), "--out", page, "--quick", "--images", 2)
    text = page.read_text(encoding="utf-8")
    section = text[text.index('id="paper"') : text.index('id="runs"')]
    assert "KL" in section
    rows = [row for row in section.split("<tr")[1:] if "<td" in row]
    assert all(row.count("<td") == rows[0].count("<td") for row in rows)
    assert all(kind in section for kind in kinds)
