"""The decoder of single pixels, lattices and the slot's own frame, inside the models that use them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.geco import GecoConfig
from emorl.models import build, parts
from emorl.models.base import Model
from emorl.models.efficient_morl import EfficientMORL
from emorl.models.efficient_morl_config import EfficientMORLConfig, InferenceConfig, ObjectiveConfig
from emorl.models.genesis_v2 import GenesisV2Config
from emorl.models.iodine import IODINEConfig
from emorl.models.monet import MONetConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.slot_attention import SlotAttentionConfig
from emorl.models.slot_mlp import SlotMLPConfig
from emorl.nn.lattice import AllPixels, BusyPixels, Lattice, draw_busy, draw_lattice, middle_lattice
from emorl.probability import LIKELIHOODS
from emorl.schedules import Schedule
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
AUTOENCODERS: dict[str, Any] = {
    "slot-attention": SlotAttentionConfig(**COMMON, block=2, num_steps=2),
    "slot-attention pixel-mixture": SlotAttentionConfig(
        **COMMON, block=2, num_steps=2, objective="pixel-mixture"
    ),
    "slot-mlp": SlotMLPConfig(**COMMON, block=2, hidden_size=6),
}


LARGER: dict[str, Any] = {
    "image_size": 16,
    "num_slots": 3,
    "slot_size": 3,
    "decoder": DecoderConfig("pixels", 4),
    "block": 2,
}
VAES: dict[str, Any] = {
    "monet": MONetConfig(**LARGER, attention_channels=2, encoder_channels=2),
    "monet pixel-mixture": MONetConfig(
        **LARGER, attention_channels=2, encoder_channels=2, likelihood="pixel-mixture"
    ),
    "genesis-v2": GenesisV2Config(**LARGER, channels=8, hidden_size=4, mask_weight=0.5),
    "genesis-v2 pixel-mixture": GenesisV2Config(
        **LARGER, channels=8, hidden_size=4, likelihood="pixel-mixture"
    ),
}
ITERATIVE = IODINEConfig(
    **LARGER,
    num_steps=2,
    refine_channels=4,
    refine_layers=2,
    refine_pooling=False,
    refine_sizes=(4,),
    lstm_size=4,
)


def images(size: int = SIZE) -> Tensor:
    return torch.rand(2, 3, size, size, dtype=F64, generator=torch.Generator().manual_seed(7))


def even_lattices(size: int = SIZE) -> list[Lattice]:
    """Four lattices of blocks of 2 x 2 that have each pixel as often as all lattices have it.

    Losses are sums over pixels, so their mean over these four is their mean over all lattices there are.
    """
    found = []
    for j in range(4):
        rows, columns, weights = [], [], []
        for top in range(0, size, 2):
            for left in range(0, size, 2):
                block = [(r, c) for r in (top, top + 1) for c in (left, left + 1) if r < size and c < size]
                row, column = block[j % len(block)]
                rows.append(row)
                columns.append(column)
                weights.append(float(len(block)))
        side = -(-size // 2)
        r, c, w = (torch.tensor(t).reshape(side, side) for t in (rows, columns, weights))
        found.append(Lattice(r, c, w, size))
    return found


def test_even_lattices_have_each_pixel_with_its_probability() -> None:
    shares = torch.zeros(SIZE, SIZE)
    for lattice in even_lattices():
        shares.index_put_((lattice.rows, lattice.columns), lattice.weights / 4, accumulate=True)
    assert (shares == 1).all()


def gradients(model: Model, draws: list[Tensor], **budget: int) -> list[Tensor]:
    """The loss and what every parameter gets of it; zeros where it gets nothing."""
    loss = model(images(model.config.image_size), noise=replayed(draws), **budget).loss
    model.zero_grad(set_to_none=True)
    loss.backward()
    return [loss.detach(), *(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())]


def assert_no_bias(whole: Model, sparse: Model, monkeypatch: pytest.MonkeyPatch, **budget: int) -> None:
    """The gradient on all pixels is the mean of those on lattices."""
    size = whole.config.image_size
    sparse.load_state_dict(whole.state_dict())
    noise, draws = recorded()
    whole(images(size), noise=noise, **budget)
    expected = gradients(whole, draws, **budget)
    sums = [torch.zeros_like(t) for t in expected]
    lattices = even_lattices(size)
    for lattice in lattices:
        monkeypatch.setattr(parts, "draw_lattice", lambda *_, lattice=lattice: lattice)
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
    assert_no_bias(*models, monkeypatch, num_steps=0)


@pytest.mark.parametrize("kind", AUTOENCODERS | VAES)
def test_lattices_do_not_bias_other_systems(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = (AUTOENCODERS | VAES)[kind]
    models = (build(varied(sparse, block=1)).double(), build(sparse).double())
    assert_no_bias(*models, monkeypatch)


def test_iodine_explains_every_pixel_of_a_lattice_as_often_as_it_counts() -> None:
    model, x = build(ITERATIVE).double(), images(16)
    z = torch.randn(2, 3, 3, dtype=F64)
    whole, _, gradient = model.explain(x, z, AllPixels(), needs_gradient=True)  # type: ignore[operator]
    parts_of = [model.explain(x, z, at, needs_gradient=True) for at in even_lattices(16)]  # type: ignore[operator]
    torch.testing.assert_close(torch.stack([nll for nll, *_ in parts_of]).mean(dim=0), whole)
    lattice = even_lattices(16)[0]
    torch.testing.assert_close(parts_of[0][2], lattice.of(gradient) * lattice.weights)


def test_iodine_refines_by_a_lattice_at_test_time_too_and_answers_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x = build(ITERATIVE).double(), images(16)
    painted: list[int] = []
    render = model.decoder.render

    def counted(z: Tensor, coordinates: Tensor | None = None) -> Tensor:
        picture = render(z, coordinates)
        painted.append(picture.shape[-1])
        return picture

    monkeypatch.setattr(model.decoder, "render", counted)
    outcome = model.infer(x)
    assert painted == [8, 8, 16]
    assert outcome.steps[-1].masks.shape[-1] == 16
    torch.testing.assert_close(model.decompose(x, seed=1).masks, model.decompose(x, seed=1).masks)
    assert {step.masks.shape[-1] for step in model.infer(x, trace=True).steps} == {16}
    painted.clear()
    assert {step.masks.shape[-1] for step in model(x).steps} == set(painted) == {8}


def test_the_middle_lattice_has_one_pixel_of_each_block_and_counts_all() -> None:
    lattice = middle_lattice(5, 2, torch.device("cpu"))
    assert lattice.rows[:, 0].tolist() == lattice.columns[0].tolist() == [1, 3, 4]
    assert lattice.weights.sum() == 25


@pytest.mark.parametrize(
    "config", [EFFICIENT, *AUTOENCODERS.values(), *VAES.values()], ids=lambda config: type(config).__name__
)
def test_every_decoding_of_a_training_pass_has_a_lattice_and_no_other(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, drawn = build(config).double(), []

    def counted(*args: Any) -> Lattice:
        drawn.append(1)
        return draw_lattice(*args)

    size = config.image_size
    monkeypatch.setattr(parts, "draw_lattice", counted)
    steps: dict[str, Any] = {"num_steps": 3} if isinstance(config, EfficientMORLConfig) else {}
    outcome = model(images(size), **steps)
    assert len(drawn) == len(outcome.steps) == (4 if steps else 1)
    assert {step.masks.shape[-2:] for step in outcome.steps} == {(-(-size // 2),) * 2}
    drawn.clear()
    assert model.infer(images(size), **steps).steps[-1].masks.shape[-2:] == (size, size)
    assert not drawn


def test_explain_has_the_gradient_of_finite_differences() -> None:
    model = EfficientMORL(EFFICIENT).double()
    z = torch.randn(2, 2, 3, dtype=F64, requires_grad=True)
    for lattice in (AllPixels(), even_lattices()[1]):
        assert torch.autograd.gradcheck(lambda z, at=lattice: model.explain(images(), at, z), z)


PRICES = {name: Schedule.parse(2) for name in ("presence", "area_price", "colour_price", "foreground_price")}


def test_each_pixel_drawn_once_costs_what_all_pixels_do() -> None:
    """Whatever the order in which an image has them, and with every price."""
    model = EfficientMORL(varied(EFFICIENT, objective=PRICES | {"free_area": 0.1})).double()
    x, z = images(), torch.randn(2, 2, 3, dtype=F64)
    order = torch.stack([torch.randperm(SIZE**2) for _ in x]).unflatten(1, (SIZE, SIZE))
    pixels = BusyPixels(order, torch.ones(2, 1, SIZE, SIZE, dtype=F64), SIZE)
    for found, expected in zip(
        model.explain(x, pixels, z)[:2], model.explain(x, AllPixels(), z), strict=False
    ):
        torch.testing.assert_close(found, expected)


def test_training_draws_pixels_where_an_image_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, shares = EfficientMORL(varied(EFFICIENT, objective={"busy": 0.5})).double(), []

    def counted(x: Tensor, block: int, share: float) -> BusyPixels:
        shares.append(share)
        return draw_busy(x, block, share)

    monkeypatch.setattr(parts, "draw_busy", counted)
    model(images(), num_steps=1).loss.backward()
    assert shares == [0.5, 0.5]
    model.infer(images(), num_steps=1)
    assert shares == [0.5, 0.5]


def test_what_refinement_is_told_is_the_gradient_of_the_pixels_painted() -> None:
    model = EfficientMORL(EFFICIENT).double()
    z = torch.randn(2, 2, 3, dtype=F64, requires_grad=True)
    total, nll, *_ = model.reconstruct(images(), z, is_training=False, is_last=False)
    plain, *_ = model.explain(images(), AllPixels(), z)
    torch.testing.assert_close(nll, plain.detach())
    ours, expected = (torch.autograd.grad(loss, z)[0] for loss in (total, plain.sum()))
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_convolutions_cannot_paint_lattices() -> None:
    others = [(config, "model.block") for config in (AUTOENCODERS["slot-mlp"], ITERATIVE, *VAES.values())]
    for config, name in [(EFFICIENT, "model.objective.block"), *others]:
        with pytest.raises(UserError, match=f"{name} = 2 needs --model.decoder.layout pixels"):
            varied(config, decoder=DecoderConfig("lean"))
    decoder = build(varied(AUTOENCODERS["slot-mlp"], decoder=DecoderConfig("lean"), block=1)).decoder
    with pytest.raises(ValueError, match="paint whole images"):
        decoder(torch.randn(1, 2, 3), torch.zeros(2, 2, 2))
