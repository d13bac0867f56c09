"""Scene, Decomposition, Outcome."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from emorl.errors import UserError
from emorl.models.base import best_of
from emorl.types import Decomposition, Outcome, Scene


def scene(value: float) -> Scene:
    return Scene(
        torch.full((3, 2, 2), value), torch.zeros(2, 2, dtype=torch.long), {"x": torch.tensor([value])}
    )


def test_scenes_stack() -> None:
    batch = Scene.stack([scene(0.0), scene(1.0)]).to(torch.device("cpu"))
    assert batch.image.shape == (2, 3, 2, 2)
    assert batch.segmentation.shape == (2, 2, 2)
    assert batch.factors["x"].tolist() == [[0.0], [1.0]]


def test_decomposition_composes_and_segments() -> None:
    masks = torch.tensor([0.2, 0.8]).reshape(1, 2, 1, 1, 1).expand(1, 2, 1, 4, 4)
    components = torch.tensor([0.5, 1.0]).reshape(1, 2, 1, 1, 1).expand(1, 2, 3, 4, 4)
    d = Decomposition(masks, components, torch.zeros(1, 2, 3, requires_grad=True), attention=masks)
    torch.testing.assert_close(d.image, torch.full((1, 3, 4, 4), 0.9))
    assert d.segmentation.shape == (1, 4, 4)
    assert (d.segmentation == 1).all()
    assert not d.detach().slots.requires_grad


def test_a_pixel_goes_to_the_slot_whose_colour_explains_it_if_masks_leave_it_open() -> None:
    """Two slots, grey and white; the first mask prefers grey a little, the second is sure."""
    components = torch.tensor([0.5, 1.0]).reshape(1, 2, 1, 1, 1).expand(1, 2, 3, 1, 2)
    masks = torch.tensor([[[0.6, 1.0]], [[0.4, 0.0]]]).reshape(1, 2, 1, 1, 2)
    d = Decomposition(masks, components, torch.zeros(1, 2, 3))
    assert d.segmentation.tolist() == [[[0, 0]]]
    white = torch.ones(1, 3, 1, 2)
    assert d.segmentation_of(white).tolist() == [[[1, 1]]]  # 37 nats for the colour against 18 for the mask
    assert d.segmentation_of(white * 0.5).tolist() == [[[0, 0]]]
    assert d.segmentation_of(white * 0.76).tolist() == [[[1, 0]]]  # the colour nearly leaves it open


def parts(seed: int, *, size: int = 5, attention: bool = True) -> Decomposition:
    g = torch.Generator().manual_seed(seed)
    masks = torch.randn(2, 3, 1, size, size, generator=g).softmax(dim=1)
    components, slots = torch.rand(2, 3, 3, size, size, generator=g), torch.randn(2, 3, 4, generator=g)
    return Decomposition(masks, components, slots, masks if attention else None)


def test_each_image_gets_the_best_of_its_tries() -> None:
    tries = [parts(0), parts(1)]
    outcomes = [Outcome(torch.zeros(()), {"nll": torch.tensor([n, n + 10.0])}, (tries[n],)) for n in (0, 1)]
    x = torch.stack([tries[1].image[0], tries[0].image[1]])  # the first image is what the second try painted
    best = best_of(outcomes, x)
    (chosen,) = best.steps
    for name in ("masks", "components", "slots", "attention"):
        assert torch.equal(getattr(chosen, name)[0], getattr(tries[1], name)[0])
        assert torch.equal(getattr(chosen, name)[1], getattr(tries[0], name)[1])
    assert best.terms["nll"].tolist() == [1.0, 10.0]
    plain = [parts(0, attention=False), parts(1, attention=False)]
    assert Decomposition.choose(plain, torch.tensor([1, 0])).attention is None


def test_other_sizes_keep_masks_a_partition_and_flat_pictures_flat() -> None:
    flat = Decomposition(
        torch.full((1, 2, 1, 5, 5), 0.5), torch.full((1, 2, 3, 5, 5), 0.3), torch.zeros(1, 2, 1)
    )
    for size in (3, 5, 12):
        found = parts(0).resized(size)
        assert found.masks.shape[-2:] == found.components.shape[-2:] == (size, size)
        torch.testing.assert_close(found.masks.sum(dim=1), torch.ones(2, 1, size, size))
        torch.testing.assert_close(flat.resized(size).image, torch.full((1, 3, size, size), 0.3))
        assert parts(0).segmentation_at(size).shape == (2, size, size)
    assert torch.equal(parts(0).segmentation_at(5), parts(0).segmentation)


def test_images_of_a_batch_are_counted_and_chosen() -> None:
    both = replace(parts(0), picture=torch.rand(2, 3, 5, 5), seen=torch.zeros(2, 4))
    assert len(both) == 2
    assert [len(one) for one in both] == [1, 1]
    for index in (1, -1, np.int64(1), np.array([1]), [1], torch.tensor([False, True]), slice(1, 2)):
        one = both[index]
        for name in ("masks", "components", "slots", "attention", "picture", "seen"):
            assert torch.equal(getattr(one, name), getattr(both, name)[1:])
    assert torch.equal(both[[1, 0]].slots, both.slots.flip(0))
    again = Decomposition.cat([both[0], both[1]])
    assert all(
        torch.equal(getattr(again, name), getattr(both, name)) for name in ("masks", "slots", "picture")
    )
    assert Decomposition.cat([both, replace(both, attention=None)]).attention is None
    with pytest.raises(IndexError):
        both[2]
    for wrong in ("masks", [7], 1.5, None, True, torch.tensor(1), [[0]]):
        with pytest.raises(UserError, match="Images are chosen by"):
            both[wrong]  # type: ignore[index]


def test_a_decomposition_moves_between_devices_as_a_whole() -> None:
    there = replace(parts(0), picture=torch.rand(2, 3, 5, 5)).to("meta")
    assert {t.device.type for t in (there.masks, there.slots, there.picture, there.attention)} == {"meta"}  # type: ignore[union-attr]
    for wrong in ("cuda:99", "moon", 3.5):
        with pytest.raises(UserError, match="There is no device"):
            parts(0).to(wrong)  # type: ignore[arg-type]


def test_everything_as_arrays() -> None:
    found = replace(parts(0), picture=torch.rand(2, 3, 5, 5))
    arrays = found.numpy()
    shapes = {name: values.shape for name, values in arrays.items()}
    assert shapes == {
        "masks": (2, 3, 5, 5), "components": (2, 3, 3, 5, 5), "slots": (2, 3, 4), "segmentation": (2, 5, 5),
        "reconstruction": (2, 3, 5, 5), "picture": (2, 3, 5, 5),
    }  # fmt: skip
    assert np.array_equal(arrays["reconstruction"], found.image.numpy())
    assert "picture" not in parts(0).numpy()


def halves() -> Decomposition:
    """Two pictures of 4 x 8 pixels: slot 0 owns the left half of the first and all of the second, slot 1 the rest."""
    masks = torch.zeros(2, 2, 1, 4, 8)
    masks[0, 0, :, :, :4] = masks[0, 1, :, :, 4:] = masks[1, 0] = 1
    slots = torch.arange(12.0).reshape(2, 2, 3)
    picture = torch.tensor([0.25, 0.75]).reshape(2, 1, 1, 1).expand(2, 3, 4, 8)
    return Decomposition(masks, torch.full((2, 2, 3, 4, 8), 0.5), slots, picture=picture)


def test_objects_are_rows_of_a_table() -> None:
    table = halves().objects()
    assert table[["image", "slot", "area", "left", "right"]].to_numpy().tolist() == [
        [0, 0, 16, 0, 4], [0, 1, 16, 4, 8], [1, 0, 32, 0, 8],
    ]  # fmt: skip
    assert table.red.tolist() == [0.25, 0.25, 0.75]
    assert table.filter(like="latent_").to_numpy().tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    seen = torch.tensor([[10.0, -5.0, 26.0, 3.0], [0.0, 0.0, 8.0, 4.0]])  # twice as large, and moved
    moved = replace(halves(), seen=seen).objects()
    box = ["left", "top", "right", "bottom", "area", "x", "y"]
    assert moved.loc[1, box].tolist() == [18, -5, 26, 3, 64, 22, -1]
    assert moved.loc[2, box].tolist() == table.loc[2, box].tolist()
    assert replace(halves(), picture=None).objects().red.tolist() == [0.5, 0.5, 0.5]
    assert list(halves()[0:0].objects().columns) == list(table.columns)


def test_the_table_is_a_dict_of_arrays_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = halves().objects()
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = halves().objects()
    assert type(table) is dict
    assert list(table) == list(expected.columns)
    assert all(np.array_equal(values, expected[name]) for name, values in table.items())


def test_pictures_of_decompositions() -> None:
    found = halves()
    drawn = found.plot()
    assert drawn.width > 5 * 96  # picture, reconstruction, owners and two slots
    assert found[0].plot().height < drawn.height == found.plot(images=2).height
    assert parts(0, size=200).plot(largest=100).width < parts(0, size=200).plot(largest=200).width
    text = found._repr_html_()
    assert repr(found) == "Decomposition(2 images, 2 slots of 3 numbers, 4 x 8 pixels)"
    assert repr(found) in text
    assert text.count("data:image/png;base64,") == 1
    many = found[[0] * 9]
    assert "the first 8 are shown" in many._repr_html_()
    assert "img" not in found[0:0]._repr_html_()
    for wrong in ({"images": 0}, {"largest": 0}, {"largest": 1.5}):
        with pytest.raises(UserError, match="must be"):
            found.plot(**wrong)
    with pytest.raises(UserError, match="no images to show"):
        found[0:0].plot()


def test_how_much_is_explained_is_known_where_pictures_are() -> None:
    whole = parts(0)
    assert replace(whole, picture=whole.image).explained == [1.0, 1.0]
    with pytest.raises(UserError, match="does not know its pictures"):
        _ = whole.explained
