"""Muon: orthogonal updates for matrices, Adam for the rest."""

from __future__ import annotations

import torch
from torch import nn

from emorl.runs.config import TrainConfig
from emorl.schedules import Schedule
from emorl.training.optimizer import Muon, as_matrices, build_optimizer, is_matrix, orthogonalise


def test_orthogonalise_levels_singular_values() -> None:
    for shape in [(3, 8, 20), (20, 8), (6, 6)]:
        singular = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
        assert singular.min() > 0.3  # a small one may need more iterations
        assert singular.max() < 1.3
        assert singular.median() > 0.65


def test_orthogonalise_keeps_directions() -> None:
    matrix = torch.randn(6, 10, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    rotated = u.mT @ orthogonalise(matrix) @ v.mT
    assert (rotated - rotated.diagonal().diag()).abs().max() < 1e-10


def test_only_matrices_are_orthogonalised() -> None:
    assert is_matrix(torch.zeros(8, 8, 3, 3))
    assert is_matrix(torch.zeros(2, 24, 8))
    assert not is_matrix(torch.zeros(8))
    assert not is_matrix(torch.zeros(4, 8, 3, 3))
    assert as_matrices(torch.zeros(8, 4, 3, 3)).shape == (8, 36)


def test_updates_are_as_large_as_adams() -> None:
    layer = nn.Conv2d(16, 32, 3)
    before = layer.weight.detach().clone()
    optimizer = Muon(layer.parameters(), lr=1e-2, size=0.2)
    (layer(torch.randn(2, 16, 8, 8)) ** 2).mean().backward()
    optimizer.step()
    change = (layer.weight - before).square().mean().sqrt().item()
    assert 0.5 * 0.2e-2 < change < 1.5 * 0.2e-2


def test_shapes_are_independent_of_their_company() -> None:
    """Matrices of one shape are stepped together; each must get what it would get alone."""
    torch.manual_seed(0)
    together = [nn.Parameter(torch.randn(8, 8)) for _ in range(3)]
    alone = [nn.Parameter(p.detach().clone()) for p in together]
    gradients = [torch.randn(8, 8) for _ in range(3)]
    for p, q, g in zip(together, alone, gradients, strict=True):
        p.grad, q.grad = g.clone(), g.clone()
    Muon(together, lr=0.1, size=0.2).step()
    for p, q in zip(together, alone, strict=True):
        Muon([q], lr=0.1, size=0.2).step()
        torch.testing.assert_close(p, q)


def test_both_optimisers_learn() -> None:
    for kind in ("adam", "muon"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
        x = torch.randn(64, 8)
        optimizer = build_optimizer(model, TrainConfig(optimizer=kind, learning_rate=Schedule.parse(1e-2)))
        losses = []
        for _ in range(60):
            loss = (model(x) - x.roll(1, dims=1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.3 * losses[0], kind


def test_vectors_follow_adam() -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2))
    one, other = Muon([ours], lr=0.1, size=0.2), torch.optim.Adam([theirs], lr=0.1)
    for step in range(5):
        ours.grad, theirs.grad = (torch.sin(p.detach() * (step + 1)) for p in (ours, theirs))
        one.step()
        other.step()
    torch.testing.assert_close(ours, theirs)
