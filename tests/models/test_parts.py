"""The decoder of single pixels, lattices and the slot's own frame, inside the models that use them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.geco import GecoConfig
from emorl.models import build, efficient_morl, slot_attention
from emorl.models.base import Model
from emorl.models.efficient_morl import EfficientMORL, EfficientMORLConfig, InferenceConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.slot_attention import SlotAttentionConfig
from emorl.models.slot_mlp import SlotMLPConfig
from emorl.nn.lattice import Lattice, draw_lattice
from emorl.probability import LIKELIHOODS
from helpers import recorded, replayed, varied

F64 = torch.float64
SIZE = 5
COMMON: dict[str, Any] = {
    "image_size": SIZE,
    "num_slots": 2,
    "slot_size": 3,
    "encoder": EncoderConfig(channels=4),
    "decoder": DecoderConfig("pixels", channels=4),
}
EFFICIENT = EfficientMORLConfig(
    **COMMON,
    inference=InferenceConfig(initialisation="scaled", own_frame=4, num_layers=2),
    objective=ObjectiveConfig(block=2, geco=GecoConfig()),
)
AUTOENCODERS = {
    "slot-attention": SlotAttentionConfig(**COMMON, block=2, num_steps=2),
    "slot-mlp": SlotMLPConfig(**COMMON, block=2, hidden_size=6),
}


def images() -> Tensor:
    return torch.rand(2, 3, SIZE, SIZE, dtype=F64, generator=torch.Generator().manual_seed(7))


def even_lattices() -> list[Lattice]:
    """Four lattices of blocks of 2 x 2 that have each pixel as often as all lattices have it.

    Losses are sums over pixels, so their mean over these four is their mean over all lattices there are.
    """
    found = []
    for j in range(4):
        rows, columns, weights = [], [], []
        for top in range(0, SIZE, 2):
            for left in range(0, SIZE, 2):
                block = [(r, c) for r in (top, top + 1) for c in (left, left + 1) if r < SIZE and c < SIZE]
                row, column = block[j % len(block)]
                rows.append(row)
                columns.append(column)
                weights.append(float(len(block)))
        r, c, w = (torch.tensor(t).reshape(3, 3) for t in (rows, columns, weights))
        found.append(Lattice(r, c, w, SIZE))
    return found


def test_even_lattices_have_each_pixel_with_its_probability() -> None:
    shares = torch.zeros(SIZE, SIZE)
    for lattice in even_lattices():
        shares.index_put_((lattice.rows, lattice.columns), lattice.weights / 4, accumulate=True)
    assert (shares == 1).all()


def gradients(model: Model, draws: list[Tensor], **budget: int) -> list[Tensor]:
    """The loss and what every parameter gets of it; zeros where it gets nothing."""
    loss = model(images(), noise=replayed(draws), **budget).loss
    model.zero_grad(set_to_none=True)
    loss.backward()
    return [loss.detach(), *(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())]


def assert_no_bias(
    module: Any, whole: Model, sparse: Model, monkeypatch: pytest.MonkeyPatch, **budget: int
) -> None:
    """The gradient on all pixels is the mean of those on lattices."""
    sparse.load_state_dict(whole.state_dict())
    noise, draws = recorded()
    whole(images(), noise=noise, **budget)
    expected = gradients(whole, draws, **budget)
    sums = [torch.zeros_like(t) for t in expected]
    lattices = even_lattices()
    for lattice in lattices:
        monkeypatch.setattr(module, "draw_lattice", lambda *_, lattice=lattice: lattice)
        found = gradients(sparse, draws, **budget)
        assert not torch.allclose(found[0], expected[0], rtol=1e-6)
        for total, one in zip(sums, found, strict=True):
            total += one / len(lattices)
    for total, wanted in zip(sums, expected, strict=True):
        torch.testing.assert_close(total, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lattices_do_not_bias_efficient_morl(likelihood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = varied(EFFICIENT, objective={"likelihood": likelihood})
    whole = varied(sparse, objective={"block": 1})
    models = (build(whole).double(), build(sparse).double())
    assert_no_bias(efficient_morl, *models, monkeypatch, num_steps=0)


@pytest.mark.parametrize("kind", AUTOENCODERS)
def test_lattices_do_not_bias_autoencoders(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = AUTOENCODERS[kind]
    models = (build(varied(sparse, block=1)).double(), build(sparse).double())
    assert_no_bias(slot_attention, *models, monkeypatch)


@pytest.mark.parametrize(
    "config", [EFFICIENT, *AUTOENCODERS.values()], ids=lambda config: type(config).__name__
)
def test_every_decoding_of_a_training_pass_has_a_lattice_and_no_other(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, drawn = build(config).double(), []

    def counted(*args: Any) -> Lattice:
        drawn.append(1)
        return draw_lattice(*args)

    for module in (efficient_morl, slot_attention):
        monkeypatch.setattr(module, "draw_lattice", counted)
    steps: dict[str, Any] = {"num_steps": 3} if isinstance(config, EfficientMORLConfig) else {}
    outcome = model(images(), **steps)
    assert len(drawn) == len(outcome.steps) == (4 if steps else 1)
    assert {step.masks.shape[-2:] for step in outcome.steps} == {(3, 3)}
    drawn.clear()
    assert model.infer(images(), **steps).steps[-1].masks.shape[-2:] == (SIZE, SIZE)
    assert not drawn


def test_explain_has_the_gradient_of_finite_differences() -> None:
    model = EfficientMORL(EFFICIENT).double()
    z = torch.randn(2, 2, 3, dtype=F64, requires_grad=True)
    for lattice in (None, even_lattices()[1]):
        assert torch.autograd.gradcheck(lambda z, at=lattice: model.explain(images(), at, z), z)


def test_what_refinement_is_told_is_the_gradient_of_the_pixels_painted() -> None:
    model = EfficientMORL(EFFICIENT).double()
    z = torch.randn(2, 2, 3, dtype=F64, requires_grad=True)
    total, nll, *_ = model.reconstruct(images(), z, is_training=False, is_last=False)
    plain, *_ = model.explain(images(), None, z)
    torch.testing.assert_close(nll, plain.detach())
    ours, expected = (torch.autograd.grad(loss, z)[0] for loss in (total, plain.sum()))
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_convolutions_cannot_paint_lattices() -> None:
    for config, name in ((EFFICIENT, "model.objective.block"), (AUTOENCODERS["slot-mlp"], "model.block")):
        with pytest.raises(UserError, match=f"{name} = 2 needs --model.decoder.layout pixels"):
            varied(config, decoder=DecoderConfig("lean"))
    decoder = build(varied(AUTOENCODERS["slot-mlp"], decoder=DecoderConfig("lean"), block=1)).decoder
    with pytest.raises(ValueError, match="paint whole images"):
        decoder(torch.randn(1, 2, 3), torch.zeros(2, 2, 2))
