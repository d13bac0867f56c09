"""GENESIS and GENESIS-S: sizes, the two chains of slots, breaking the stick, GECO, and norms."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.geco import KLGeco, KLGecoConfig
from emorl.models.genesis import AutoregressivePosterior, Genesis, GenesisConfig
from emorl.nn.autoregressive import AutoregressivePrior, posterior_from, prior_from
from emorl.nn.gated import GatedConv, Norm
from emorl.probability import Gaussian, Noise
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from helpers import present, replayed

both = pytest.mark.parametrize("shared", [False, True], ids=["genesis", "genesis-s"])


def tiny(shared: bool = False, **changes: Any) -> Genesis:
    kind = "genesis-s" if shared else "genesis"
    return Genesis(replace(PRESETS[f"{kind}/tetrominoes-tiny"].model, **changes))


def lively(model: Genesis) -> Genesis:
    """With weights large enough for every latent to show."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2).add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    ("shared", "size", "count"),
    [
        (False, 32, 4_559_620),
        (False, 64, 12_620_548),
        (False, 96, 8_360_708),
        (False, 128, 13_406_980),
        (True, 32, 4_342_916),
        (True, 64, 12_207_236),
        (True, 96, 7_619_716),
        (True, 128, 12_207_236),
    ],
)
def test_parameter_counts_are_the_published_ones(shared: bool, size: int, count: int) -> None:
    with torch.device("meta"):
        model = Genesis(GenesisConfig(image_size=size, shared=shared))
    assert sum(p.numel() for p in model.parameters()) == count


@both
@pytest.mark.parametrize("kind", ["tetrominoes", "multi-dsprites", "clevr6"])
def test_presets_are_the_published_model(shared: bool, kind: str) -> None:
    run = PRESETS[f"{'genesis-s' if shared else 'genesis'}/{kind}-paper"]
    assert run.model == GenesisConfig(run.model.image_size, run.model.num_slots, shared)
    assert (run.train.steps, run.train.batch_size, run.train.learning_rate) == (
        500_000,
        32,
        Schedule.parse(1e-4),
    )


@both
@pytest.mark.parametrize("size", [35, 64, 96, 128])
@pytest.mark.parametrize("decoder", ["appearance", "lean-appearance"])
def test_image_sizes(shared: bool, size: int, decoder: str) -> None:
    model = tiny(shared, image_size=size, num_slots=2, channels=2, strides=None, decoder=decoder)
    assert model.decompose(torch.rand(1, 3, size, size)).image.shape == (1, 3, size, size)


@both
def test_any_number_of_slots(shared: bool) -> None:
    model, x = tiny(shared), torch.rand(2, 3, 35, 35)
    for K in (1, 2, 7):
        outcome = model(x, num_slots=K)
        outcome.loss.backward()
        assert outcome.steps[-1].masks.shape == (2, K, 1, 35, 35)
        assert model.decode(outcome.steps[-1].slots).masks.shape == (2, K, 1, 35, 35)
    assert not tiny(shared, num_slots=1).is_fully_used(None)


def test_posterior_is_an_lstm_over_its_own_samples() -> None:
    """The same chain by torch.nn.LSTM, which sees all inputs at once, and the formulas of the appendix."""
    posterior, features, noise = (
        AutoregressivePosterior(6, 3, state_size=5),
        torch.rand(2, 6),
        torch.randn(4, 2, 3),
    )
    with torch.no_grad():
        q, z = posterior(features, 4, replayed(noise.unbind()))
    lstm = nn.LSTM(9, 5, batch_first=True)
    lstm.load_state_dict({f"{name}_l0": weight for name, weight in posterior.lstm.state_dict().items()})
    inputs = torch.cat([features[:, None].expand(-1, 3, -1), z[:, :-1]], dim=-1)
    params = torch.cat([posterior.first(features)[:, None], posterior.head(lstm(inputs)[0])], dim=1)
    torch.testing.assert_close(q.mu, params[..., :3])
    torch.testing.assert_close(q.sigma, (1 + (params[..., 3:] + 0.5).exp()).log() + 1e-8)
    torch.testing.assert_close(z, q.mu + q.sigma * noise.transpose(0, 1))


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_slot_knows_those_before_it_alone(changed: int) -> None:
    model, z = lively(tiny()), torch.randn(2, 4, 8)
    other = z.clone()
    other[:, changed] += 1
    features = torch.rand(2, model.config.hidden_size)

    def posterior(z: Tensor) -> Gaussian:
        """With noise that makes the samples those of `z`, up to a constant."""
        q: Gaussian
        q, _ = model.posterior(features, 4, replayed(z.unbind(dim=1)))
        return q

    for density in (model.prior, posterior):
        one, two = density(z), density(other)
        for a, b in ((one.mu, two.mu), (one.sigma, two.sigma)):
            assert torch.equal(a[:, : changed + 1], b[:, : changed + 1])
            assert ((a - b).abs().amax(dim=(0, 2))[changed + 1 :] > 1e-6).all()


def test_first_prior_is_standard_and_the_others_are_bounded() -> None:
    p = lively(tiny()).prior(5 * torch.randn(3, 4, 8))
    assert (p.mu[:, 0] == 0).all()
    assert (p.sigma[:, 0] == 1).all()
    assert p.mu.abs().max() <= 1
    assert 1e-4 < p.sigma.min() <= p.sigma.max() <= 1 + 1e-4
    assert prior_from(torch.zeros(2)).sigma.item() == pytest.approx(1 / (1 + math.exp(-4)) + 1e-4)
    assert posterior_from(torch.zeros(2)).sigma.item() == pytest.approx(math.log1p(math.exp(0.5)))


def test_closed_form_kl_is_the_mean_of_the_published_estimate() -> None:
    """log q(z|x) - log p(z) of a sample of the whole chain, averaged over 20 000 of them."""
    posterior, prior = AutoregressivePosterior(4, 2, state_size=8), AutoregressivePrior(2, hidden_size=8)
    with torch.no_grad():
        q, z = posterior(torch.randn(1, 4).expand(20_000, -1), 3, Noise())
        p = prior(z)
        log_q, log_p = (torch.distributions.Normal(d.mu, d.sigma).log_prob(z) for d in (q, p))
        estimates, kl = (log_q - log_p).sum(dim=(1, 2)), q.kl(p)
    error = (estimates - kl).std() / 20_000**0.5
    assert abs(estimates.mean() - kl.mean()) < 4 * error
    assert kl.std() < 0.5 * estimates.std()


@both
def test_loss_is_nll_and_weighted_kl(shared: bool) -> None:
    model, x = tiny(shared), torch.rand(3, 3, 35, 35)
    model.geco.beta.fill_(0.3)
    outcome = model(x)
    t = outcome.terms
    torch.testing.assert_close(outcome.loss.detach(), (t["nll"] + 0.3 * t["kl"]).mean())
    torch.testing.assert_close(t["kl"], t["kl_mask"] + t.get("kl_component", torch.zeros(3)))
    assert ("kl_component" in t) != shared


def test_component_latents_are_inferred_from_masked_images_and_expected_from_mask_latents() -> None:
    model, x = tiny().double(), torch.rand(2, 3, 35, 35, dtype=torch.float64)
    encoder, prior = present(model.component_encoder), present(model.component_prior)
    with torch.no_grad():
        outcome = model.infer(x, noise=Noise(means=True))
        answer = outcome.steps[-1]
        z_m, mu_c = answer.slots.split([8, 4], dim=-1)
        kl = torch.zeros(2, dtype=torch.float64)
        for k in range(4):
            mu, raw = encoder(x, answer.masks[:, k : k + 1].log()).squeeze(1).chunk(2, dim=-1)
            torch.testing.assert_close(mu, mu_c[:, k])
            mu_p, raw_p = prior(z_m[:, k]).chunk(2, dim=-1)
            q = torch.distributions.Normal(mu, nn.functional.softplus(raw + 0.5))
            p = torch.distributions.Normal(mu_p.tanh(), (raw_p + 4).sigmoid() + 1e-4)
            kl += torch.distributions.kl_divergence(q, p).sum(dim=-1)
    torch.testing.assert_close(outcome.terms["kl_component"], kl)


@both
def test_sticks_are_broken_in_order(shared: bool) -> None:
    """Masks by the published recursion; slots in another order are another picture."""
    model, order = lively(tiny(shared)), torch.tensor([2, 0, 3, 1])
    slots = torch.randn(2, 4, 8 if shared else 12)
    with torch.no_grad():
        masks, scope = [], torch.ones(2, 1, 35, 35)
        for k in range(3):
            alpha = model.mask_decoder(slots[:, k, :8], learn=False).sigmoid()
            masks.append(scope * alpha)
            scope = scope * (1 - alpha)
        found, other = model.decode(slots).masks, model.decode(slots[:, order]).masks
    torch.testing.assert_close(found, torch.stack([*masks, scope], dim=1))
    assert (found[:, order] - other).abs().max() > 0.01


def test_what_each_part_of_a_slot_decides() -> None:
    model, slots = lively(tiny()), torch.randn(1, 4, 12)

    def changes(slot: int, part: slice) -> tuple[list[bool], list[bool]]:
        """Which slots' masks and appearances change when this part of one slot does."""
        edited = slots.clone()
        edited[:, slot, part] += 1
        with torch.no_grad():
            a, b = model.decode(slots), model.decode(edited)
        moved = (a.masks - b.masks).abs().amax(dim=(0, 2, 3, 4)) > 0
        painted = (a.components - b.components).abs().amax(dim=(0, 2, 3, 4)) > 0
        return moved.tolist(), painted.tolist()

    mask, appearance = slice(8), slice(8, None)
    assert changes(1, mask) == ([False, True, True, True], [False] * 4)  # those behind it get what is left
    assert changes(3, mask) == ([False] * 4, [False] * 4)  # the last slot takes the rest in any case
    assert changes(1, appearance) == ([False] * 4, [False, True, False, False])


def test_gated_convolution_equals_the_published_one() -> None:
    """Halves of the channels, each with a norm of its own."""
    x = torch.randn(3, 2, 9, 9)
    norms: dict[Norm, type[nn.Module]] = {"batch": nn.BatchNorm2d, "instance": nn.InstanceNorm2d}
    for norm, alone in norms.items():
        conv = nn.Conv2d(2, 8, 5, padding=2)
        h, g = conv(x).chunk(2, dim=1)
        expected = alone(4)(h) * torch.sigmoid(alone(4)(g))
        torch.testing.assert_close(GatedConv(conv, norm)(x, learn=True), expected)
    h, g = conv(x).chunk(2, dim=1)
    torch.testing.assert_close(GatedConv(conv)(x, learn=True), h * g.sigmoid())


@both
def test_only_training_moves_batch_statistics(shared: bool) -> None:
    model, x = tiny(shared, norm="batch"), torch.rand(4, 3, 35, 35)
    for _ in range(3):
        model(x)
    before = copy.deepcopy(model.state_dict())
    assert any(name.endswith("running_mean") and value.any() for name, value in before.items())
    whole = model.decompose(x)
    model.decode(whole.slots)
    model.eval()(x)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    alone = model.decompose(x[:1])
    torch.testing.assert_close(alone.masks, whole.masks[:1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(alone.components, whole.components[:1], rtol=1e-4, atol=1e-6)


def geco(**changes: Any) -> KLGeco:
    return replace(KLGecoConfig(), **changes).build(image_size=32, sigma=0.7)


def test_geco_follows_the_published_recursion() -> None:
    g, beta, average = geco(step_size=1e-3, decay=0.9), 1.0, None
    goal = 0.5655 * 3 * 32**2
    for error in [1900.0, 1850.0, 1700.0, 1500.0, 1500.0, 1500.0, 1900.0]:  # constants included, as published
        assert g.beta.item() == pytest.approx(beta, rel=1e-4)
        g.update(torch.tensor(error - 3 * 32**2 * 0.5 * math.log(2 * math.pi)))
        average = error if average is None else 0.9 * average + 0.1 * error
        gap = goal - average
        beta = min(1e10, max(1e-10, beta * math.exp(1e-3 * 4 * (10 if gap > 0 else 1) * gap)))
    assert g.beta.item() == pytest.approx(beta, rel=1e-3)


def test_geco_goal_is_a_squared_error_of_three_thousandths() -> None:
    elements = 3 * 32**2
    assert (present(geco().target) - elements * math.log(0.7)) / elements * 2 * 0.7**2 == pytest.approx(
        0.0031, abs=1e-4
    )
    with pytest.raises(UserError, match="cannot be reached"):
        geco(goal=0.56)
    free = geco(goal=None, start=0.5)
    free.update(torch.tensor(1e6))
    assert free.beta == 0.5
    assert geco(bounds=(0.2, 1.0), start=0.3).bounds == (0.2, 1.0)


def test_only_adapt_moves_the_weight_of_the_kl() -> None:
    model, x = tiny(geco=KLGecoConfig(), likelihood_sigma=0.7), torch.rand(2, 3, 35, 35)
    terms = model(x).terms
    assert model.geco.beta == 1
    model.adapt({name: term.mean() for name, term in terms.items()})
    assert model.geco.beta < 1  # far from the goal
    assert terms["kl_weight"] == 1  # what was logged stays


def test_refusals() -> None:
    with pytest.raises(UserError, match="does not iterate"):
        tiny().decompose(torch.rand(1, 3, 35, 35), num_steps=1)
    with pytest.raises(UserError, match="strides"):
        tiny(strides=(1, 2, 0, 1, 1))
    with pytest.raises(UserError, match="channels"):
        tiny(channels=0)


def test_a_shared_latent_starts_without_a_checkerboard() -> None:
    """Or masks of dots are what GENESIS-S learns: slots share the background instead of finding objects."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Genesis(PRESETS["genesis-s/tetrominoes"].model)
    colours = model.decoder.render(torch.randn(1, 1, 32))[0, 0, :, :34, :34]
    cells = colours.unflatten(2, (17, 2)).unflatten(1, (17, 2))  # (3, 17, 2, 17, 2)
    assert cells.std(dim=(1, 3)).min() > 0.01  # from place to place
    torch.testing.assert_close(cells[:, :, :1, :, :1].expand_as(cells), cells)
