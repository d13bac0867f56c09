"""Traversals: one number of one slot goes through its range."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from emorl.errors import UserError
from emorl.evaluation.latents import widest
from emorl.plots.files import as_gif
from emorl.plots.traversals import Traversal, most_salient, traversal_frames, traverse
from toys import Toy

RANGES = torch.tensor([[0.0, -1.0, 0.0], [1.0, 1.0, 0.5]])


@pytest.fixture
def traversal() -> Traversal:
    found = Toy().decode(torch.tensor([[[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]]]))
    return traverse(Toy(), found, RANGES, [0, 1], values=5)


def test_a_traversal_goes_from_the_least_to_the_greatest_value(traversal: Traversal) -> None:
    assert traversal.slot == 0
    assert traversal.pictures.shape == (2, 5, 3, 8, 8)
    moved, ignored = traversal.pictures
    assert torch.allclose(moved[:, 0, 0, 0], torch.linspace(0, 1, 5))
    assert moved[2, 0, 0, 0] == 0.5  # the middle column is the middle of the range
    assert (moved[:, :, :, 4:] == 0).all()  # the other slot is not touched
    assert (ignored == ignored[0]).all()  # a dimension that the decoder ignores
    assert torch.allclose(ignored[0, 0, 0, 0], torch.tensor(0.3))


def test_traversals_refuse_what_is_not_there() -> None:
    found = Toy().decode(torch.zeros(1, 2, 3))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"dims": [3]}, "no dimension 3: a slot's dimensions are 0 to 2"),
        ({"dims": [0], "slot": 2}, "no slot 2: this model's slots are 0 to 1"),
        ({"dims": []}, "at least one dimension"),
    ]
    for options, message in refused:
        with pytest.raises(UserError, match=message):
            traverse(Toy(), found, RANGES, **options)


def test_the_slot_that_stands_out_is_not_the_background() -> None:
    slots = torch.zeros(1, 2, 3)
    slots[0, 1, 0] = 0.9
    found = Toy().decode(slots)
    masks = found.masks.clone()
    masks[:, 0], masks[:, 1] = 1, 0
    masks[:, 0, :, :3, 5:], masks[:, 1, :, :3, 5:] = 0, 1  # a small bright thing before much black
    assert most_salient(replace(found, masks=masks)) == 1
    assert widest(RANGES, 2) == [1, 0]


def test_an_animation_goes_forth_and_back_without_end(traversal: Traversal) -> None:
    frames = traversal_frames(traversal)
    assert len(frames) == 8  # five values, and three on the way back
    assert frames[0].titles == ["z0", "z1"]
    with Image.open(io.BytesIO(as_gif([frame.strip(0, 4) for frame in frames]))) as gif:
        assert isinstance(gif, GifImageFile)
        assert gif.n_frames == 8
        assert gif.info["loop"] == 0
        assert gif.convert("RGBA").getchannel("A").getpixel((33, 5)) == 0  # between the panels
        gif.seek(4)
        assert gif.convert("RGBA").getpixel((2, 2)) == (255, 255, 255, 255)
    with Image.open(io.BytesIO(as_gif([frame.drawn() for frame in frames]))) as gif:
        corner = gif.convert("RGB").getpixel((1, 1))
        assert isinstance(corner, tuple)
        assert min(corner) > 248
