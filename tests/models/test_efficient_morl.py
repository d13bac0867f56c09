"""EfficientMORL against a plain reference, and the symmetries the paper proves."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.evaluation.cost import Pass, peak_memory
from emorl.experiments.reference import Reference
from emorl.geco import GecoConfig
from emorl.models import build
from emorl.models.efficient_morl import EfficientMORL, refinement_weights
from emorl.models.efficient_morl_config import EfficientMORLConfig, InferenceConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.prices import colour_spread, excess_area, outside_largest, slots_in_use
from emorl.nn import decoder
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.position import PositionProjection
from emorl.nn.recurrent import DualGRU
from emorl.probability import Gaussian, noise_per_image
from emorl.runs.presets import PRESETS
from emorl.runs.presets.efficient_morl import TETROMINOES
from emorl.schedules import Schedule
from emorl.types import Outcome
from helpers import present, recorded, replayed, varied

SMALL = EfficientMORLConfig(
    image_size=16,
    num_slots=3,
    slot_size=4,
    num_steps=2,
    encoder=EncoderConfig(channels=6),
    decoder=DecoderConfig("lean", channels=5),
    inference=InferenceConfig(attention_norm=True, initialisation="scaled", scale_bias=-1.0),
    objective=ObjectiveConfig(kl_weight=Schedule.parse(0.7), nll_weight=1.3, geco=GecoConfig()),
)
NO_GECO = ObjectiveConfig(geco=GecoConfig())


def images(B: int = 2, size: int = 16, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(B, 3, size, size, dtype=dtype, generator=torch.Generator().manual_seed(7))


def gradients(model: EfficientMORL) -> dict[str, Tensor | None]:
    found = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


def assert_equals_reference_mode(model: EfficientMORL, **budget: int) -> None:
    """The loss and all gradients, with the same noise."""
    x = images()
    noise, draws = recorded()
    loss = model(x, noise=noise, **budget).loss
    loss.backward()
    ours = gradients(model)
    reference = Reference.of(model)
    expected = reference(x, noise=replayed(draws), **budget).loss
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    for name, gradient in gradients(reference).items():
        assert (gradient is None) == (ours[name] is None), name
        if gradient is not None:
            torch.testing.assert_close(ours[name], gradient, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("I", [0, 1, 3])
@pytest.mark.parametrize("L", [0, 1, 2, 3])
@pytest.mark.parametrize("likelihood", ["gaussian", "mixture"])
@pytest.mark.parametrize("prior", ["bottom-up", "reversed", "reversed++"])
def test_equals_reference_mode(prior: Any, likelihood: Any, L: int, I: int) -> None:
    objective = {"prior": prior, "likelihood": likelihood}
    model = EfficientMORL(varied(SMALL, inference={"num_layers": L}, objective=objective)).double()
    assert_equals_reference_mode(model, num_steps=I)


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": {"layout": "small"}},
        {"decoder": {"layout": "broadcast"}},
        {"decoder": {"layout": "deconv"}},
        {"encoder": {"frequencies": 3}, "decoder": {"frequencies": 2}},
        {"encoder": {"stride": 2}},
        {"encoder": {"layout": "pyramid"}},
        {"objective": {"loss_weights": "paper"}},
        {"objective": {"sigma": Schedule.parse("0.5 10:0.2")}},
        {"inference": {"attention_norm": False}},
        {"objective": {"geco": GecoConfig(target_mse=0.01, warm_up=0)}},
    ],
)
def test_every_variant_equals_reference_mode(changes: dict[str, Any]) -> None:
    model = EfficientMORL(varied(SMALL, **changes)).double()
    if model.geco is not None:
        for _ in range(3):
            model.geco.update(torch.tensor(1e6), torch.tensor(0.1))
    assert_equals_reference_mode(model, num_slots=4, num_steps=2)


def test_images_one_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = EfficientMORL(varied(SMALL, decoder={"layout": "broadcast"})).double()
    monkeypatch.setattr(decoder, "LAYER", 1)  # of which one image has more
    calls: list[int] = []
    model.decoder.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))
    assert_equals_reference_mode(model, num_steps=2)
    assert calls == [1] * 6
    model.infer(images(), num_steps=0)
    assert calls == [1] * 8


@pytest.mark.parametrize("L", [0, 2])
@pytest.mark.parametrize("I", [0, 3])
def test_inference_finds_what_training_finds(L: int, I: int) -> None:
    model = build(varied(SMALL, inference={"num_layers": L}))
    x = images(dtype=torch.float32)
    noise, draws = recorded()
    trained = model(x, num_steps=I, noise=noise)
    inferred = model.infer(x, num_steps=I, noise=replayed(draws))
    assert len(trained.steps) == len(inferred.steps) == I + 1
    for one, other in zip(trained.steps, inferred.steps, strict=True):
        assert torch.equal(one.masks, other.masks)
        assert torch.equal(one.slots, other.slots)
    assert torch.equal(trained.loss, inferred.loss)


def test_slots_are_equivariant() -> None:
    """Appendix A: permuting the noise of the slots permutes all that is inferred, and nothing else."""
    model = build(SMALL).double()
    x, order = images(), torch.tensor([2, 0, 1])
    noise, draws = recorded()
    one = model.infer(x, noise=noise).steps[-1]
    other = model.infer(x, noise=replayed([n[:, order] for n in draws])).steps[-1]
    torch.testing.assert_close(one.masks[:, order], other.masks)
    torch.testing.assert_close(one.slots[:, order], other.slots)
    torch.testing.assert_close(one.image, other.image)


@pytest.mark.parametrize("L", [0, 1, 3])
@pytest.mark.parametrize("I", [0, 1, 2])
def test_with_means_the_last_posterior_alone_is_not_sampled(L: int, I: int) -> None:
    """Layers and refinements have learned from samples, so they get samples: only what is shown is a mean."""
    model = build(varied(SMALL, inference={"num_layers": L}))
    noise, draws = recorded()
    sampled = model.infer(images(dtype=torch.float32), num_steps=I, noise=noise).steps[-1]
    means = model.infer(images(dtype=torch.float32), num_steps=I, noise=replayed(draws, means=True)).steps[-1]
    torch.testing.assert_close(means.slots, sampled.slots)
    assert not torch.equal(means.masks[:, 0], means.masks[:, 1])
    if L == I == 0:  # nothing but the sample tells slots apart
        return
    torch.testing.assert_close(model.decode(means.slots).masks, means.masks)
    assert not torch.equal(means.masks, sampled.masks)


def test_posterior_is_invariant_to_the_order_of_pixels() -> None:
    """Appendix A: the tokens are a set."""
    model = EfficientMORL(SMALL).double()
    tokens = torch.randn(2, 256, 6, dtype=torch.float64)
    z, lam = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 8, dtype=torch.float64)
    shuffled = tokens[:, torch.randperm(256)]
    features = torch.zeros(2, 6, 16, 16, dtype=torch.float64)  # of which only the slot's own frame knows
    (one, _), (other, _) = (model.layer(model.layer.look(features, t), z, lam) for t in (tokens, shuffled))
    torch.testing.assert_close(one, other)


def test_an_image_does_not_see_its_neighbours() -> None:
    model = build(varied(SMALL, num_steps=3)).double()
    x = images(B=6)
    noise, draws = recorded()
    together = model.infer(x, noise=noise).steps[-1]
    alone = model.infer(x[4:5], noise=replayed([n[4:5] for n in draws])).steps[-1]
    torch.testing.assert_close(alone.slots, together.slots[4:5], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(alone.masks, together.masks[4:5], rtol=1e-12, atol=1e-12)


def test_inference_changes_nothing() -> None:
    model = build(varied(SMALL, objective={"geco": GecoConfig(target_mse=0.01, warm_up=0)}))
    before = copy.deepcopy(model.state_dict())
    model.infer(images(dtype=torch.float32), trace=True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_refinement_cannot_run_in_inference_mode() -> None:
    """It differentiates at test time; this pins why `infer` uses no_grad, under which it works."""
    model, x = build(SMALL), images(dtype=torch.float32)
    with torch.no_grad():
        assert len(model.infer(x, num_steps=1).steps) == 2
    with torch.inference_mode(), pytest.raises(RuntimeError):
        model.infer(x, num_steps=1)


def test_trace_shows_every_layer_with_its_attention() -> None:
    outcome = build(varied(SMALL, encoder={"stride": 2})).infer(
        images(dtype=torch.float32), num_steps=2, trace=True
    )
    assert len(outcome.steps) == 3 + 2  # z^1, z^2, z^3, two refinements
    for step in outcome.steps[:3]:
        assert step.attention is not None
        assert step.attention.shape == (2, 3, 1, 8, 8)
        torch.testing.assert_close(step.attention.sum(dim=1), torch.ones(2, 1, 8, 8))


def test_gradient_of_refinement_is_that_of_the_summed_loss() -> None:
    """Finite differences of the loss with respect to λ, through the refinement network's own input."""
    model = EfficientMORL(varied(SMALL, inference={"num_layers": 1})).double()
    x = images()
    seen = []
    model.refine.register_forward_pre_hook(
        lambda module, args: seen.append((args[0].detach(), args[1].detach()))
    )
    noise, draws = recorded()
    model.infer(x, num_steps=1, noise=noise)
    lam, gradient = seen[0]
    reference = Reference.of(model)

    def loss_at(lam: Tensor) -> Tensor:
        q = Gaussian.from_params(lam)
        with torch.no_grad():
            nll = reference.negative_log_likelihood(x, *reference.render(q.mu + q.sigma * draws[1]))
            return (0.7 * q.kl(Gaussian.standard(q.mu)) + 1.3 * nll).sum()

    for index in [(0, 0, 0), (1, 2, 3), (0, 1, 5), (1, 0, 7)]:
        shift = torch.zeros_like(lam)
        shift[index] = 1e-5
        numeric = (loss_at(lam + shift) - loss_at(lam - shift)) / 2e-5
        torch.testing.assert_close(gradient[index], numeric, rtol=1e-5, atol=1e-5)


def with_and_without(**price: Any) -> tuple[Outcome, Outcome]:
    """A pass without and one with a price in the objective, of one model on the same images."""
    found = []
    for changes in ({}, price):
        torch.manual_seed(0)
        model = EfficientMORL(varied(SMALL, objective={"loss_weights": "paper", **changes})).double()
        with torch.no_grad():
            found.append(model(images(), num_steps=0, noise=noise_per_image([0, 1])))
    return found[0], found[1]


def test_a_used_slot_costs_once_and_the_kl_weight_counts() -> None:
    without, with_cost = with_and_without(presence=Schedule.parse(10))
    used = slots_in_use(without.steps[-1].masks)
    torch.testing.assert_close(with_cost.loss - without.loss, 0.7 * 10 * used.mean())
    torch.testing.assert_close(with_cost.terms["nll"], without.terms["nll"])


def test_what_a_slot_covers_beyond_the_free_area_has_a_price() -> None:
    without, with_price = with_and_without(area_price=Schedule.parse(10), free_area=0.2)
    shares = without.steps[-1].masks.mean(dim=(2, 3, 4))
    expected = 10 * (shares / 0.2).clamp_min(1).log().sum(dim=1)
    assert (expected > 0).all()
    torch.testing.assert_close(with_price.loss - without.loss, expected.mean())


def test_one_large_slot_is_cheaper_than_two_that_share_its_pixels_and_small_ones_are_free() -> None:
    masks = torch.zeros(3, 3, 1, 10, 10)
    masks[0, 0], masks[0, 1, :, 0] = 1, 0
    masks[0, 1, :, :1, :8], masks[0, 0, :, :1, :8] = 1, 0  # an object of 8 % and the rest
    masks[1, 0, :, :5], masks[1, 1, :, 5:] = 1, 1  # halves
    masks[2, 0] = 1  # everything in one slot
    alone, halves, merged = excess_area(masks, free=0.1).tolist()
    assert alone < merged < halves
    torch.testing.assert_close(alone, math.log(9.2), rtol=1e-5, atol=1e-5)
    lattice = torch.full((10, 10), 4.0)
    torch.testing.assert_close(excess_area(masks, lattice, free=0.1), excess_area(masks, free=0.1))


def test_colours_beside_the_mean_colour_of_a_slot_have_a_price() -> None:
    without, with_price = with_and_without(colour_price=Schedule.parse(3))
    answer = without.steps[-1]
    expected = torch.zeros((), dtype=torch.float64)
    for masks, colours in zip(answer.masks.flatten(0, 1), answer.components.flatten(0, 1), strict=True):
        mean = (masks / masks.sum() * colours).sum(dim=(1, 2), keepdim=True)
        expected += (masks * (colours - mean).square()).sum()
    torch.testing.assert_close(with_price.loss - without.loss, 3 * expected / len(answer.masks))


def test_a_plain_slot_costs_nothing_and_a_slot_of_two_colours_does() -> None:
    masks = torch.zeros(2, 2, 1, 4, 4)
    masks[0, 0, :, :1], masks[0, 1, :, 1:] = 1, 1  # an object and a background
    masks[1, 0] = 1  # both in one slot
    picture = torch.zeros(3, 4, 4)
    picture[0, :1] = 1  # a red object on black
    components = picture.expand(2, 2, 3, 4, 4)
    apart, together = colour_spread(masks, components).tolist()
    assert apart == 0
    assert together == 4 * (3 / 4) ** 2 + 12 * (1 / 4) ** 2
    weights = torch.full((4, 4), 2.0)
    assert colour_spread(masks, components, weights).tolist() == [0, 2 * together]


def test_pixels_outside_the_largest_slot_have_a_price() -> None:
    without, with_price = with_and_without(foreground_price=Schedule.parse(2))
    shares = without.steps[-1].masks.mean(dim=(2, 3, 4))
    outside = 1 - shares.max(dim=1).values
    torch.testing.assert_close(with_price.loss - without.loss, 2 * 16**2 * outside.mean())


def test_a_lattice_counts_the_pixels_outside_the_largest_slot_by_their_weights() -> None:
    masks = torch.zeros(1, 3, 1, 4, 4)
    masks[0, 1, :, 1:], masks[0, 0, :, :1, 1:], masks[0, 2, :, :1, :1] = 1, 1, 1
    assert outside_largest(masks).tolist() == [4 / 16]
    weights = torch.ones(4, 4)
    weights[0] = 5
    assert outside_largest(masks, weights).tolist() == [17 / 32]  # 15 of one slot, and 5 and 12 of two others


@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("I", [0, 2])
def test_of_several_starts_each_image_has_the_one_that_explains_it_best(L: int, I: int) -> None:
    config = varied(SMALL, inference={"num_layers": L, "scale_bias": 2.0, "starts": 3})
    thrice = build(config).double()
    once = build(varied(config, inference={"starts": 1})).double()
    once.load_state_dict(thrice.state_dict())
    x = images(B=6)
    noise, draws = recorded()
    found = thrice.infer(x, num_steps=I, noise=noise)
    starts, rest = [draws[L * s : L * (s + 1)] for s in range(3)], draws[3 * L :]

    alone = [once.infer(x, num_steps=I, noise=replayed([*start, *rest])) for start in starts]
    at_means = [once.infer(x, num_steps=0, noise=replayed([*start, *rest], means=True)) for start in starts]
    best = torch.stack([one.terms["nll"] for one in at_means]).argmin(dim=0)
    assert len(set(best.tolist())) > 1
    for image, start in enumerate(best.tolist()):
        torch.testing.assert_close(found.steps[-1].masks[image], alone[start].steps[-1].masks[image])
        torch.testing.assert_close(found.terms["kl_1"][image], alone[start].terms["kl_1"][image])


def test_training_starts_once() -> None:
    model = build(varied(SMALL, inference={"starts": 5}))
    noise, draws = recorded()
    model(images(dtype=torch.float32), noise=noise, num_steps=1)
    assert len(draws) == 3 + 1 + 3 + 1  # stage 1, z^L, what conditions the prior, a refinement


def test_ancestral_draws_condition_the_prior_on_the_samples_used() -> None:
    model = build(varied(SMALL, objective={"prior_draw": "ancestral"}))
    noise, draws = recorded()
    model(images(dtype=torch.float32), num_steps=0, noise=noise)
    assert len(draws) == 4  # z^0..z^3 and no fresh ones


def test_ancestral_and_fresh_draws_agree_on_average() -> None:
    """Within four standard errors of the difference, which is a hundredth of the KL."""
    x = images(dtype=torch.float32, B=1, size=8).expand(2000, -1, -1, -1)
    kls = []
    for draw in ("fresh", "ancestral"):
        torch.manual_seed(0)
        changes = {"objective": {"prior_draw": draw}, "inference": {"scale_bias": 0.5}}
        kls.append(build(varied(SMALL, image_size=8, **changes)).infer(x, num_steps=0).terms["kl_1"])
    error = (sum(kl.var() for kl in kls) / 2000) ** 0.5
    assert error < 0.01 * kls[0].mean()
    assert (kls[0].mean() - kls[1].mean()).abs() < 4 * error


def test_refinement_weights() -> None:
    assert refinement_weights(3, "paper") == [1.0, 0.75, 0.5, 0.25]
    assert refinement_weights(1, "paper") == [1.0, 0.5]
    assert refinement_weights(3, "code") == [1.5, 1.25, 1.0, 0.75]
    assert refinement_weights(1, "code") == [2.0, 1.5]
    assert refinement_weights(3, "increasing") == [0.25, 0.5, 0.75, 1.0]
    assert refinement_weights(0, "paper") == [1.0]


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (EfficientMORLConfig(), 666_500),  # CLEVR6
        (EfficientMORLConfig(image_size=64, num_slots=6, objective=NO_GECO), 666_500),
        (TETROMINOES, 467_236),
        (EfficientMORLConfig(decoder=DecoderConfig("deconv")), 1_031_108),
    ],
)
def test_parameter_counts(config: EfficientMORLConfig, count: int) -> None:
    assert sum(p.numel() for p in build(config).parameters() if p.requires_grad) == count


def test_official_initialisation() -> None:
    model = EfficientMORL(TETROMINOES)
    conv, gru, decoder = model.encoder.convolutions[2], model.layer.gru, model.decoder
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(gru, DualGRU)
    assert isinstance(decoder, SpatialBroadcastDecoder)
    assert isinstance(decoder.position, PositionProjection)
    fan = 64 * 25 + 64 * 25
    assert conv.weight.std().item() == pytest.approx(0.02 * (2 / fan) ** 0.5, rel=0.05)
    assert present(conv.bias).abs().max() == 0
    assert gru.weight_input.std().item() == pytest.approx(1, rel=0.1)
    assert model.encoder.position.project.weight.abs().max().item() > 0.1  # PyTorch's default, not tiny
    assert decoder.position.project.weight.abs().max().item() < 0.1
    assert model.lam0.tolist() == [0.0] * 32 + [1.0] * 32


def test_scaled_initialisation_keeps_signals_alive() -> None:
    model = EfficientMORL(PRESETS["efficient-morl/tetrominoes"].model)
    tokens = model.encoder(torch.rand(2, 3, 35, 35))
    assert 0.1 < tokens.std().item() < 10
    last = model.layer.mlp_s[2]
    assert isinstance(last, nn.Linear)
    assert torch.equal(last.bias, torch.full((32,), -6.0))


def test_single_gru_ablation_learns() -> None:
    model = build(varied(SMALL, inference={"gru": "single"}))
    model(images(dtype=torch.float32)).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(("budget", "message"), [({"num_slots": 0}, "slots must be at least 1"),
                                                 ({"num_steps": -1}, "steps must be at least 0")])  # fmt: skip
def test_impossible_budgets_are_refused(budget: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(SMALL).decompose(images(dtype=torch.float32), **budget)


def test_wrong_images_are_refused() -> None:
    model = build(SMALL)
    with pytest.raises(UserError, match=r"\(B, 3, 16, 16\); got \(2, 3, 20, 20\)"):
        model.decompose(torch.rand(2, 3, 20, 20))
    with pytest.raises(UserError, match="Divide 8-bit images by 255"):
        model.decompose(255 * torch.rand(2, 3, 16, 16))
    with pytest.raises(UserError, match="divisible by 16, not 35"):
        build(varied(SMALL, image_size=35, decoder={"layout": "deconv"}))


def test_training_memory_does_not_grow_with_refinement() -> None:
    """One decode here takes twice the memory of everything else: keeping a second graph would show."""
    make = partial(build, EfficientMORLConfig(image_size=48, num_slots=6, objective=NO_GECO))
    one, four = peak_memory([Pass(make, 2, training=True, num_steps=I) for I in (1, 4)])
    assert four < 1.1 * one, f"peak grew from {one} bytes at I=1 to {four} at I=4"
