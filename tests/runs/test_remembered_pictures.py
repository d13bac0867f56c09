"""Runs on a folder of pictures: damaged ones are refused first, and changes since are told."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from emorl.data import DataConfig
from emorl.errors import UserError
from emorl.runs.config import RunConfig
from emorl.runs.directory import PICTURES
from emorl.runs.run import Run
from emorl.training.trainer import train
from tiny import tiny


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """A run on 30 pictures."""
    rng, photos = np.random.default_rng(0), tmp_path / "photos"
    photos.mkdir()
    for number in range(30):
        Image.fromarray(rng.integers(0, 256, (35, 35, 3), dtype=np.uint8)).save(photos / f"{number}.png")
    settings = {"steps": 2, "checkpoint_every": 1, "evaluate_images": 1, "batch_size": 2}
    return replace(tiny(**settings), data=DataConfig("folder", path=str(photos), image_size=35))


def scenes_of(run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Run.open(run).scenes("test")


def test_a_run_remembers_its_pictures(config: RunConfig, tmp_path: Path) -> None:
    run, photos = tmp_path / "run", tmp_path / "photos"
    train(config, run)
    kept = json.loads((run / PICTURES).read_text())
    assert sorted(kept) == ["test", "train", "validation"]
    assert sorted(name for names in kept.values() for name in names) == sorted(
        path.name for path in photos.iterdir()
    )
    scenes_of(run)
    (photos / "new.png").write_bytes((photos / "0.png").read_bytes())
    (photos / kept["train"][0]).unlink()
    expected = rf"began with: 1 added \(new\.png\); 1 removed \({kept['train'][0]}\)\.$"
    with pytest.warns(UserWarning, match=expected):
        Run.open(run).scenes("test")
    with pytest.warns(UserWarning, match=expected):
        train(config.with_steps(3), run, resume=True)
    assert json.loads((run / PICTURES).read_text()) == kept  # what it began with


def test_pictures_in_another_split_are_told(config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    kept = json.loads((tmp_path / "run" / PICTURES).read_text())
    kept["train"].append(kept["test"].pop(0))
    (tmp_path / "run" / PICTURES).write_text(json.dumps(kept))
    with pytest.warns(UserWarning, match=rf"1 in another split \({kept['train'][-1]}\)"):
        Run.open(tmp_path / "run").scenes("test")


def test_runs_that_do_not_know_are_not_asked(config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    (tmp_path / "run" / PICTURES).unlink()
    (tmp_path / "photos" / "0.png").unlink()
    scenes_of(tmp_path / "run")


@pytest.mark.parametrize(
    "content", ["{}", "[", '{"train": 1, "test": ["a.png"], "validation": ["b.png"]}', '{"train": [1]}']
)
def test_a_damaged_list_is_named(content: str, config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    (tmp_path / "run" / PICTURES).write_text(content)
    with pytest.raises(UserError, match=PICTURES):
        Run.open(tmp_path / "run").scenes("test")


def test_damaged_pictures_are_refused_by_name_before_anything_is_made(
    config: RunConfig, tmp_path: Path
) -> None:
    for name in ("3.png", "5.png", "7.png", "9.png"):
        whole = (tmp_path / "photos" / name).read_bytes()
        (tmp_path / "photos" / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"3\.png \(.*5\.png \(.*7\.png \(.*and 1 others"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
