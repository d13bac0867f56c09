"""Scene, Decomposition, Outcome."""

from __future__ import annotations

import torch

from emorl.types import Decomposition, Scene


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
