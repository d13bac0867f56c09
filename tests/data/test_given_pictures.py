"""emorl.decompose: a picture gives the same objects however it is given, and places are those in the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import emorl
from emorl.data.given import given_pictures
from emorl.models.base import Model
from emorl.panels import to_pixels
from emorl.runs.run import Run

NAME = "efficient-morl/tetrominoes"
SCENES = emorl.open_dataset("tetrominoes", "test")


@pytest.fixture(scope="module")
def model() -> Model:
    return emorl.load(NAME)


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.stack([SCENES[i].image for i in range(3)])


def test_one_picture_is_the_same_however_it_is_given(model: Model, x: Tensor, tmp_path: Path) -> None:
    pixels = to_pixels(x[0])
    image = Image.fromarray(pixels)
    image.save(tmp_path / "a.png")
    expected = emorl.decompose(x[0], model)
    ways: list[Any] = [
        tmp_path / "a.png", str(tmp_path / "a.png"), image, image.convert("RGBA"), pixels, pixels / 255, pixels[None],
        (pixels / 255).astype(np.float16), pixels.transpose(2, 0, 1), x[:1], x[0].double(), x[0].permute(1, 2, 0),
        torch.from_numpy(pixels), [pixels], (image,), iter([x[0]]), SCENES[0], [str(tmp_path / "a.png")],
    ]  # fmt: skip
    for way in ways:
        found = emorl.decompose(way, model)
        assert len(found) == 1
        torch.testing.assert_close(found.masks, expected.masks, atol=0.02, rtol=0)  # 16 bits are not exact
        assert found.picture is not None
        torch.testing.assert_close(found.picture, x[:1], atol=1e-3, rtol=0)
    direct = model.decompose(x[:1], seed=0)
    assert direct.masks.shape == expected.masks.shape


def test_a_picture_depends_on_no_other_one_in_its_batch(model: Model, x: Tensor) -> None:
    together, alone = emorl.decompose(x, model, tries=2), emorl.decompose(x[2], model, tries=2)
    torch.testing.assert_close(together[2].masks, alone.masks, atol=1e-4, rtol=0)
    mixed = emorl.decompose([to_pixels(x[0]), x[1], Image.fromarray(to_pixels(x[2]))], model, tries=2)
    torch.testing.assert_close(mixed.masks, together.masks, atol=1e-3, rtol=0)
    assert min(together.explained) > 0.9


def test_options_reach_the_model(model: Model, x: Tensor) -> None:
    assert emorl.decompose(x, model, num_slots=6).masks.shape[1] == 6
    found = emorl.decompose(x, model, size=70)
    assert found.masks.shape[-2:] == found.components.shape[-2:] == (70, 70)
    assert found.picture is not None
    assert found.picture.shape[-2:] == (70, 70)
    torch.manual_seed(0)
    first, second = (emorl.decompose(x, model, seed=None).slots for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(
        emorl.decompose(x, model, seed=4).slots, emorl.decompose(x, Run.open(NAME), seed=4).slots
    )
    assert not torch.equal(emorl.decompose(x, NAME, sample=True).masks, emorl.decompose(x, model).masks)


def test_places_are_in_pixels_of_the_picture() -> None:
    """A scene three times as large, with grey to its left and right: each object is found where it was put."""
    scene = emorl.open_dataset("multi-dsprites", "test")[2]
    pixels, ids = (
        np.kron(t, np.ones((3, 3, 1), np.uint8))
        for t in (to_pixels(scene.image), scene.segmentation[..., None])
    )
    wide = np.pad(pixels, ((0, 0), (30, 30), (0, 0)), constant_values=150)
    found = emorl.decompose(wide, "efficient-morl/multi-dsprites", tries=2)
    table = found.objects()
    assert table.background.sum() == 1
    assert len(table) == 4
    for number in range(1, 4):
        rows, columns = np.nonzero(ids[..., 0] == number)
        distance = np.hypot(table.x - (columns.mean() + 30.5), table.y - (rows.mean() + 0.5))
        distance[table.background] = np.inf
        nearest = table.loc[distance.idxmin()]
        assert distance.min() < 6
        assert abs(nearest.left - (columns.min() + 30)) <= 9
        assert abs(nearest.bottom - (rows.max() + 1)) <= 9
    assert abs(table.area.sum() - 192 * 192) < 0.02 * 192 * 192


@pytest.mark.filterwarnings(
    "ignore:The picture is explained badly"
)  # padded or stretched, it is of another kind
@pytest.mark.parametrize(
    ("fit", "seen"), [("crop", (20, 0, 90, 70)), ("pad", (0, -20, 110, 90)), ("stretch", (0, 0, 110, 70))]
)
def test_the_square_that_is_seen(model: Model, fit: Any, seen: tuple[int, ...]) -> None:
    found = emorl.decompose(np.zeros((70, 110, 3), np.uint8), model, fit=fit)
    assert found.seen is not None
    assert tuple(found.seen[0].tolist()) == seen


def test_what_is_explained_badly_is_said(model: Model) -> None:
    noise = np.random.default_rng(0).random((35, 35, 3))
    with pytest.warns(UserWarning, match=r"1 of 2 pictures are explained badly by .* \(picture 1: \d+%\)"):
        found = emorl.decompose([SCENES[0].image, noise], NAME)
    assert found.explained[0] > 0.9
    assert found.explained[1] < 0.5


def test_grey_and_transparent_arrays() -> None:
    grey = np.full((4, 6), 0.25)
    assert given_pictures(grey)[0].shape == (4, 6, 3)
    assert given_pictures(np.full((2, 4, 6, 1), 7, np.uint8))[1].tolist() == np.full((4, 6, 3), 7).tolist()
    clear = np.concatenate([np.full((4, 6, 3), 200, np.uint8), np.full((4, 6, 1), 51, np.uint8)], axis=-1)
    assert (given_pictures(clear)[0] == 40).all()
    assert np.allclose(given_pictures(clear / 255)[0], 40 / 255)
    turned = Image.new("RGB", (6, 4), (1, 2, 3))
    assert given_pictures([turned, turned.convert("L")])[0].shape == (4, 6, 3)
    assert turned.size == (6, 4)
    half = given_pictures(torch.full((3, 5, 5), 0.5, dtype=torch.bfloat16))
    assert (half[0] == 0.5).all()
