"""OwnFramePooling: what a slot attends to looks the same wherever it is."""

from __future__ import annotations

import torch
from torch import Tensor

from emorl.nn.own_frame import OwnFramePooling

F64 = torch.float64
GRID = 10


def pooling() -> OwnFramePooling:
    return OwnFramePooling(4, 6, grid=GRID, channels=8).double()


def pattern() -> tuple[Tensor, Tensor]:
    """Features (h, w, C) and attention (K, h, w) of two slots that look at a few tokens in the middle."""
    g = torch.Generator().manual_seed(3)
    features = torch.randn(GRID, GRID, 4, generator=g, dtype=F64)
    weights = torch.zeros(2, GRID, GRID, dtype=F64)
    weights[:, 3:6, 4:7] = torch.rand(2, 3, 3, generator=g, dtype=F64)
    return features, weights / weights.sum(dim=(1, 2), keepdim=True)


def pooled(layer: OwnFramePooling, features: Tensor, weights: Tensor) -> Tensor:
    seen = layer.what(features.flatten(0, 1))[None, None]
    found: Tensor = layer(seen, weights.flatten(1)[None])[0]
    return found


def test_a_moved_pattern_differs_by_where_it_is_alone() -> None:
    layer = pooling()
    features, weights = pattern()
    here = pooled(layer, features, weights)
    for down, right in [(2, -3), (-3, 1), (0, 3)]:
        moved = features.roll((down, right), dims=(0, 1)), weights.roll((down, right), dims=(1, 2))
        shift = torch.tensor([down, right], dtype=F64) * 2 / GRID
        expected = here + layer.frame.weight[:, :2] @ shift
        torch.testing.assert_close(pooled(layer, *moved), expected, rtol=1e-6, atol=1e-6)
        assert not torch.allclose(pooled(layer, *moved), here, atol=1e-3)


def test_what_is_not_attended_to_does_not_matter() -> None:
    layer = pooling()
    features, weights = pattern()
    noisy = features + (weights.sum(dim=0) == 0).unsqueeze(-1) * torch.randn_like(features)
    torch.testing.assert_close(pooled(layer, noisy, weights), pooled(layer, features, weights))


def test_the_arrangement_of_features_matters() -> None:
    """Plain attention would see the same mean."""
    layer = pooling()
    features, weights = pattern()
    weights = (weights > 0).double() / 9
    mirrored = features.clone()
    mirrored[3:6, 4:7] = features[3:6, 4:7].flip(1)
    assert not torch.allclose(pooled(layer, mirrored, weights), pooled(layer, features, weights), atol=1e-3)


def test_a_slot_at_a_single_token_has_a_finite_gradient() -> None:
    layer = pooling()
    features, weights = pattern()
    weights = torch.zeros_like(weights)
    weights[:, 4, 4] = 1
    weights.requires_grad_()
    found = pooled(layer, features, weights)
    found.sum().backward()
    assert found.isfinite().all()
    assert weights.grad is not None
    assert weights.grad.isfinite().all()
