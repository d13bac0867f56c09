"""The everyday path: my pictures, a model that has learned from them, their objects, and the model used elsewhere."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import emorl
from emorl.cli import main
from emorl.runs.run import load
from toys import SHIPPED

COUNT = 12
COLOURS = [(220, 60, 40), (60, 200, 80), (50, 80, 230)]


def draw_pictures(folder: Path) -> None:
    """Pictures of three discs, not square, half of them in a folder below."""
    random = Random(0)
    (folder / "more").mkdir(parents=True)
    for number in range(COUNT):
        picture = Image.new("RGB", (90, 70), (20, 20, 30))
        pen = ImageDraw.Draw(picture)
        for colour in COLOURS:
            left, top = random.randint(10, 60), random.randint(0, 50)
            pen.ellipse((left, top, left + 18, top + 18), fill=colour)
        picture.save(folder / ("more" if number % 2 else "") / f"{number}.png")


def test_from_pictures_to_an_exported_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    draw_pictures(Path("photos"))
    settings = ["--train.steps", "3", "--train.batch-size", "2", "--train.evaluate-images", "2"]
    main(
        [
            "train",
            "efficient-morl/folder",
            "--data.path",
            "photos",
            "--from",
            SHIPPED,
            "--out",
            "run",
            *settings,
        ]
    )
    told = capsys.readouterr().err
    assert told.startswith("Training efficient-morl on 10 images of folder (35 x 35)")
    before, after = load(SHIPPED).state_dict(), load("run").state_dict()
    moved = [(after[name] - before[name]).abs().max() for name in ("lam0", "layer.attention.q.weight")]
    assert 0 < max(moved) < 0.1, "it has gone on from the weights, and not from scratch"

    main(["decompose", "run", "photos", "--out", "parts", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == COUNT
    assert len({row["picture"] for row in rows}) == COUNT
    with np.load("parts/more/1/arrays.npz") as arrays:
        assert arrays["reconstruction"].shape == (3, 70, 90)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    main(["evaluate", "../run", "--split", "train", "--images", "2", "--json"])
    assert "nll" in json.loads(capsys.readouterr().out)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # after three steps a picture may be explained badly
        table = emorl.decompose(["../photos/0.png", "../photos/more/1.png"], "../run").objects()
    assert set(table["image"]) == {0, 1}
    assert {"slot", "area", "left", "x", "red", "latent_31"} <= set(table)
    assert max(table["right"]) <= 80, (
        "places are in pixels of the pictures: a square of 70 from the middle of 90"
    )

    load("../run").save_pretrained("shared")
    again = emorl.from_pretrained("shared").state_dict()
    assert all(torch.equal(again[name], value) for name, value in after.items())

    main(["export", "../run", "--format", "pt2", "--part", "decode", "--out", "painter.pt2"])
    assert "slots" in capsys.readouterr().out
    slots = torch.randn(5, 4, 32, generator=torch.Generator().manual_seed(0))
    masks, components = torch.export.load("painter.pt2").module()(slots)
    painted = load("../run").decode(slots)
    torch.testing.assert_close(masks, painted.masks, rtol=0, atol=1e-4)
    torch.testing.assert_close(components, painted.components, rtol=0, atol=1e-4)
