"""Scene, Decomposition, Outcome."""

from __future__ import annotations

import torch

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
