"""Densities against torch.distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from emorl.models.prices import slots_in_use
from emorl.probability import (
    LIKELIHOODS,
    Gaussian,
    Noise,
    as_float32,
    gaussian_nll,
    mixture_nll,
    noise_per_image,
    pixel_mixture_nll,
    process_noise,
    scene_noise,
)

F64 = torch.float64


def pair() -> tuple[Gaussian, Gaussian]:
    lam = torch.randn(2, 5, 3, 8, dtype=F64)
    return Gaussian.from_params(lam[0]), Gaussian.from_params(lam[1])


def test_kl_equals_torch_distributions() -> None:
    q, p = pair()
    expected = kl_divergence(Normal(q.mu, q.sigma), Normal(p.mu, p.sigma)).sum(dim=(1, 2))
    torch.testing.assert_close(q.kl(p), expected)
    torch.testing.assert_close(q.kl(q), torch.zeros(5, dtype=F64))


def test_parameters_are_mean_and_softplus_variance() -> None:
    q = Gaussian.from_params(torch.tensor([[[3.0, 0.0]]], dtype=F64))
    assert q.mu.item() == 3
    assert q.sigma.item() ** 2 == pytest.approx(math.log(2) + 1e-5)


@pytest.mark.parametrize("raw", [-1e4, -80.0, 80.0, 1e4])
def test_extreme_scales_stay_finite(raw: float) -> None:
    lam = torch.full((1, 1, 2), raw, requires_grad=True)
    q = Gaussian.from_params(lam)
    kl = q.kl(Gaussian.standard(q.mu)).sum()
    (gradient,) = torch.autograd.grad(kl, lam)
    assert kl.isfinite()
    assert gradient.isfinite().all()


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.rand(2, 3, 6, 6, dtype=F64)
    log_masks = torch.randn(2, 4, 1, 6, 6, dtype=F64).log_softmax(dim=1)
    return x, log_masks, torch.rand(2, 4, 3, 6, 6, dtype=F64)


def test_gaussian_likelihood_equals_torch_distributions() -> None:
    x, log_masks, components = scene()
    expected = -Normal((log_masks.exp() * components).sum(1), 0.3).log_prob(x).sum((1, 2, 3))
    constant = 3 * 36 * 0.5 * math.log(2 * math.pi)
    torch.testing.assert_close(gaussian_nll(x, log_masks, components, 0.3), expected - constant)


def test_mixture_likelihood_equals_torch_distributions() -> None:
    x, log_masks, components = scene()
    weights = torch.distributions.Categorical(logits=log_masks.expand_as(components).movedim(1, -1))
    mixture = torch.distributions.MixtureSameFamily(weights, Normal(components.movedim(1, -1), 0.1))
    constant = 3 * 36 * 0.5 * math.log(2 * math.pi)
    expected = -mixture.log_prob(x).sum((1, 2, 3)) - constant
    torch.testing.assert_close(mixture_nll(x, log_masks, components, 0.1), expected)


def test_pixel_mixture_likelihood_equals_torch_distributions() -> None:
    x, log_masks, components = scene()
    weights = torch.distributions.Categorical(logits=log_masks.squeeze(2).movedim(1, -1))
    colours = torch.distributions.Independent(Normal(components.movedim((1, 2), (-2, -1)), 0.1), 1)
    mixture = torch.distributions.MixtureSameFamily(weights, colours)
    constant = 3 * 36 * 0.5 * math.log(2 * math.pi)
    expected = -mixture.log_prob(x.movedim(1, -1)).sum((1, 2)) - constant
    torch.testing.assert_close(pixel_mixture_nll(x, log_masks, components, 0.1), expected)


def test_a_pixel_is_explained_by_one_slot() -> None:
    """A yellow pixel, a black and a white slot: channel by channel each explains what it can, as a pixel neither."""
    x = torch.tensor([1.0, 1.0, 0.0], dtype=F64).reshape(1, 3, 1, 1)
    components = torch.tensor([0.0, 1.0], dtype=F64).reshape(1, 2, 1, 1, 1).expand(1, 2, 3, 1, 1)
    log_masks = torch.full((1, 2, 1, 1, 1), 0.5, dtype=F64).log()
    sigma = 0.1
    wrong = math.exp(-1 / (2 * sigma**2))
    split = -3 * math.log(0.5 * (1 + wrong) / sigma)
    whole = -math.log(0.5 * (wrong + wrong**2) / sigma**3)
    assert mixture_nll(x, log_masks, components, sigma).item() == pytest.approx(split, rel=1e-12)
    assert pixel_mixture_nll(x, log_masks, components, sigma).item() == pytest.approx(whole, rel=1e-12)
    assert whole > split + 40


@pytest.mark.parametrize("nll", LIKELIHOODS.values())
def test_weights_count_pixels(nll: Any) -> None:
    """A pixel with a weight of 2 counts as two pixels, with 0 as none."""
    x, log_masks, components = scene()
    weights = torch.tensor([[2.0, 0.0]] * 6, dtype=F64).repeat(1, 3)
    left = (t[..., ::2] for t in (x, log_masks, components))
    torch.testing.assert_close(nll(x, log_masks, components, 0.2, weights), 2 * nll(*left, 0.2))
    plain, ones = (nll(x, log_masks, components, 0.2, w) for w in (None, torch.ones(6, 6, dtype=F64)))
    torch.testing.assert_close(plain, ones)


def test_used_slots_are_counted() -> None:
    masks = torch.zeros(2, 3, 1, 10, 10)
    masks[0, 0] = 1  # one slot has everything
    masks[1, 0, :, :5], masks[1, 1, :, 5:] = 1, 1
    torch.testing.assert_close(slots_in_use(masks), torch.tensor([1.0, 2.0]))
    masks[0, 1] = 0.01  # a ghost, everywhere
    torch.testing.assert_close(slots_in_use(masks)[0], torch.tensor(2 - math.exp(-1)))
    # One pixel of each block stands for the block.
    torch.testing.assert_close(
        slots_in_use(masks[..., ::2, ::2], torch.full((5, 5), 4.0)), slots_in_use(masks)
    )


def test_with_one_hot_masks_all_likelihoods_agree() -> None:
    x, _, components = scene()
    owner = torch.randint(4, (2, 1, 1, 6, 6))
    logits = torch.full((2, 4, 1, 6, 6), -1e3, dtype=F64).scatter(1, owner, 0.0)
    log_masks = logits.log_softmax(dim=1)
    one, *others = (nll(x, log_masks, components, 0.2) for nll in LIKELIHOODS.values())
    for other in others:
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("nll", LIKELIHOODS.values())
def test_likelihoods_survive_saturated_masks(nll: Any) -> None:
    x, _, components = scene()
    logits = torch.zeros(2, 4, 1, 6, 6, dtype=F64)
    logits[:, 0] = 1e4
    logits.requires_grad_()
    value = nll(x, logits.log_softmax(dim=1), components, 0.1).sum()
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("nll", LIKELIHOODS.values())
def test_likelihood_gradients(nll: Any) -> None:
    x, log_masks, components = scene()
    log_masks, components = log_masks[:1, :, :, :2, :2], components[:1, :, :, :2, :2]
    inputs = (log_masks.requires_grad_(), components.requires_grad_())
    assert torch.autograd.gradcheck(lambda m, c: nll(x[:1, :, :2, :2], m, c, 0.3), inputs)


def standard(B: int, *shape: int) -> Gaussian:
    return Gaussian.standard(torch.zeros(B, *shape))


def test_processes_share_the_noise_of_one_batch() -> None:
    torch.manual_seed(1)
    whole = Noise().sample(standard(6, 2, 3))
    for rank in (0, 1):
        torch.manual_seed(1)
        assert torch.equal(process_noise(rank, 2).sample(standard(3, 2, 3)), whole[rank::2])


def test_noise_per_image_depends_on_its_seed_alone() -> None:
    noise, single = noise_per_image([5, 6, 7]), noise_per_image([6])
    together = [noise.sample(standard(3, 2, 4)) for _ in range(2)]
    alone = [single.sample(standard(1, 2, 4)) for _ in range(2)]
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one[0], other[1])
    assert not torch.equal(*together)


def test_scene_noise_depends_on_seed_and_scene() -> None:
    def draw(seed: int, *scenes: int) -> list[float]:
        return scene_noise(seed, scenes).sample(standard(len(scenes), 1, 1)).flatten().tolist()

    assert draw(0, 3, 4, 5) == draw(0, 3) + draw(0, 4) + draw(0, 5)
    assert len({*draw(0, *range(50)), *draw(1, *range(50)), *draw(2, *range(50))}) == 150


def test_means_are_for_the_answer_and_not_on_the_way_to_it() -> None:
    q = Gaussian(torch.full((2, 3), 5.0), torch.full((2, 3), 0.1))
    for noise in (Noise(means=True), scene_noise(0, [0, 1], means=True)):
        assert torch.equal(noise.answer(q), q.mu)
        assert not torch.equal(noise.sample(q), q.mu)
    ones = Noise(torch.ones_like)
    torch.testing.assert_close(ones.sample(q), q.mu + 0.1)
    assert torch.equal(ones.sample(q), ones.answer(q))


def test_low_precision_becomes_float32_and_nothing_else_changes() -> None:
    for dtype, expected in ((torch.bfloat16, torch.float32), (torch.float32, torch.float32), (F64, F64)):
        assert as_float32(torch.zeros(2, dtype=dtype)).dtype == expected
        assert Gaussian.from_params(torch.zeros(1, 1, 2, dtype=dtype)).sigma.dtype == expected
