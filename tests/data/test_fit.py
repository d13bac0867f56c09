"""Pictures of any size for square models, and results back at their size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from emorl.data.base import Array
from emorl.data.fit import Fit, Place, fitted

RED = (200, 30, 20)


def striped(height: int, width: int) -> Array:
    """A gradient from left to right, and one down."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)[None]
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    return pixels


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("shape", [(40, 60), (61, 33), (20, 20), (1, 7)])
def test_what_a_square_shows_comes_back_to_its_place(fit: Fit, shape: tuple[int, int]) -> None:
    pixels, place = striped(*shape), Place(*shape, fit)
    square = torch.from_numpy(fitted(pixels, place.side, fit).copy()).permute(2, 0, 1).float()
    back = place.restore(square).numpy()
    left, top, right, bottom = place.seen
    seen = pixels[top:bottom, left:right].transpose(2, 0, 1)
    assert back.shape == seen.shape
    assert np.abs(back - seen).mean() < 3
    whole = place.on_picture(back, -1)
    assert whole.shape == (3, *shape)
    assert (whole >= 0).sum() == 3 * (right - left) * (bottom - top)


def test_what_is_added_has_the_colour_of_the_edge() -> None:
    pixels = np.full((10, 20, 3), RED, dtype=np.uint8)
    pixels[4:6, 8:12] = 255
    square = fitted(pixels, 20, "pad")
    assert (square[0] == RED).all()
    assert (square[-1] == RED).all()
    assert (square[10, 10] == 255).all()
    assert set(fitted(np.full((2, 4), 7, dtype=np.uint8), 8, "pad", smooth=False).ravel()) == {0, 7}


def test_all_of_the_picture_is_seen_unless_it_is_cropped() -> None:
    assert Place(30, 40, "crop").seen == (5, 0, 35, 30)
    assert Place(30, 40, "pad").seen == Place(30, 40, "stretch").seen == (0, 0, 40, 30)
