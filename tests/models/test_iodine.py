"""IODINE against a plain reference, what its refinement sees, and what a pass costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.evaluation.cost import Pass, peak_memory
from emorl.models.iodine import IODINE, IODINEConfig, refinement_weights
from emorl.models.iodine_inputs import CHANNELS, NORMED, PixelLikelihood, refinement_inputs
from emorl.models.parts import DecoderConfig
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.lattice import AllPixels
from emorl.nn.position import cosine_grid
from emorl.probability import noise_per_image
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from helpers import always, present, replayed
from plain_iodine import PlainIODINE

SMALL = IODINEConfig(
    image_size=11, num_slots=3, slot_size=4, num_steps=2, decoder=DecoderConfig("same-3x3", channels=5),
    refine_channels=6, refine_layers=2, refine_sizes=(7, 5), lstm_size=6, kl_weight=Schedule.parse(0.7),
    prior_variance=0.8,
)  # fmt: skip
LEGACY = replace(
    SMALL, decoder=DecoderConfig("same-5x5", channels=5), coordinates="cosine", lstm_size=0, refine_kernel=5,
    refine_sizes=(7,), legacy_constants=True,
)  # fmt: skip


def images(B: int = 2, size: int = 11, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(B, 3, size, size, dtype=dtype, generator=torch.Generator().manual_seed(7))


def perturbed(config: IODINEConfig) -> IODINE:
    """In float64, with every parameter away from values that hide mistakes, such as gains of one."""
    model = IODINE(config).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("likelihood", ["mixture", "logistic", "gaussian"])
@pytest.mark.parametrize("picture_gradients", [False, True])
@pytest.mark.parametrize("config", [SMALL, LEGACY, replace(SMALL, bounded=True, refine_pooling=False)])
def test_equals_plain_autograd(
    config: IODINEConfig, picture_gradients: bool, likelihood: Any, T: int
) -> None:
    model = perturbed(
        replace(config, picture_gradients=picture_gradients, likelihood=likelihood, likelihood_sigma=0.3)
    )
    x, noise = images(), [torch.randn(2, 3, 4, dtype=torch.float64) for _ in range(T + 1)]
    loss = model(x, num_steps=T, noise=replayed(noise)).loss
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    expected = PlainIODINE(model).loss(x, 3, T, noise)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    for name, p in model.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=1e-7, atol=1e-7, msg=name)


def test_inputs_of_one_pixel() -> None:
    """Two slots, by hand: colours 0 and 1, masks 1/4 and 3/4, a pixel of colour 1, a deviation of 1."""
    painted = torch.zeros(1, 2, 4, 1, 1, dtype=torch.float64)
    painted[0, 1, :3] = 1
    painted[0, 1, 3] = torch.log(torch.tensor(3.0))
    x = torch.ones(1, 3, 1, 1, dtype=torch.float64)
    gradient = torch.arange(8.0).reshape(1, 2, 4, 1, 1)
    seen = {
        name: t.flatten().tolist()
        for name, t in refinement_inputs(x, painted, gradient, PixelLikelihood("mixture", 1.0)).items()
    }
    wrong = 0.22313016  # exp(-3/2); the right colour has a density of 1
    assert seen["image"] == [1, 1, 1]
    assert seen["means"] == [0, 0, 0, 1, 1, 1]
    assert seen["mask_logits"] == pytest.approx([0, 1.0986123])
    assert seen["masks"] == pytest.approx([0.25, 0.75])
    assert seen["mask_posterior"] == pytest.approx([wrong / (1 + wrong), 1 / (1 + wrong)], rel=1e-5)
    assert seen["gradient_means"] == [0, 1, 2, 4, 5, 6]
    assert seen["gradient_logits"] == [3, 7]
    whole = torch.tensor(0.25 * wrong + 0.75).log().item()
    assert seen["log_likelihood"] == pytest.approx([whole])
    assert seen["counterfactual"] == pytest.approx(
        [whole - 0, whole + 1.5]
    )  # the other one has the pixel alone
    composed = refinement_inputs(x, painted, gradient, PixelLikelihood("gaussian", 1.0))
    assert composed["log_likelihood"].item() == pytest.approx(-3 * 0.25**2 / 2)
    assert composed["counterfactual"].flatten().tolist() == pytest.approx([-0.09375, 1.5 - 0.09375])


def test_what_is_normed_is_not_differentiated() -> None:
    painted = torch.randn(2, 3, 4, 5, 5, requires_grad=True)
    seen = refinement_inputs(
        images(size=5, dtype=torch.float32), painted, 2 * painted, PixelLikelihood("mixture", 0.3)
    )
    assert list(seen) == list(CHANNELS)
    assert {name: t.shape[2] for name, t in seen.items()} == CHANNELS
    assert [name for name, t in seen.items() if t.requires_grad] == [
        "means", "mask_logits", "masks", "mask_posterior"
    ]  # fmt: skip
    assert NORMED == ("gradient_means", "gradient_logits", "log_likelihood", "counterfactual")


def test_gradients_that_refinement_sees_are_those_of_the_loss() -> None:
    model, x, z = perturbed(SMALL), images(), torch.randn(2, 3, 4, dtype=torch.float64)
    *_, painted, gradient = model.reconstruct(x, z, AllPixels(), trained=False, is_last=False)
    leaf = painted.clone().requires_grad_()
    (expected,) = torch.autograd.grad(-model.likelihood(x, leaf).sum(), leaf)
    torch.testing.assert_close(gradient, expected)


def test_likelihoods_are_finite_far_from_the_image() -> None:
    painted = 100 * torch.randn(2, 3, 4, 5, 5)
    for kind in ("mixture", "logistic", "gaussian"):
        for t in refinement_inputs(
            images(size=5, dtype=torch.float32), painted, painted, PixelLikelihood(kind, 0.1)
        ).values():
            assert t.isfinite().all(), kind


def test_late_refinements_count_most() -> None:
    assert refinement_weights(5) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert refinement_weights(1) == [0, 1]


@pytest.mark.parametrize(
    ("data", "count"), [("tetrominoes", 199_568), ("multi-dsprites", 339_152), ("clevr6", 1_177_168)]
)
def test_parameter_counts_are_the_published_ones(data: str, count: int) -> None:
    config = PRESETS[f"iodine/{data}-paper"].model
    assert sum(p.numel() for p in IODINE(replace(config, legacy_constants=True)).parameters()) == count
    # The constants feed the decoder's and refinement's first convolutions, and the LSTM or the head.
    kernels = config.refine_kernel**2 * ((config.decoder.channels or 64) + config.refine_channels)
    without = count - kernels - (4 * config.lstm_size or 2 * config.slot_size)
    assert sum(p.numel() for p in IODINE(config).parameters()) == without


@pytest.mark.parametrize("size", [35, 64, 96, 128])
@pytest.mark.parametrize("decoder", ["same-3x3", "same-5x5", "lean"])
@pytest.mark.parametrize("pooling", [True, False])
def test_image_sizes(size: int, decoder: Any, pooling: bool) -> None:
    model = IODINE(
        replace(
            SMALL,
            image_size=size,
            num_slots=2,
            num_steps=1,
            decoder=DecoderConfig(decoder, channels=5),
            refine_pooling=pooling,
        )
    )
    assert model.decompose(torch.rand(1, 3, size, size)).image.shape == (1, 3, size, size)


@pytest.mark.parametrize("K", [1, 2, 5])
def test_slots_and_iterations_are_free(K: int) -> None:
    outcome = IODINE(SMALL)(images(dtype=torch.float32), num_slots=K, num_steps=4, trace=True)
    outcome.loss.backward()
    assert len(outcome.steps) == 5
    assert outcome.steps[-1].masks.shape[1] == K
    assert [name for name in outcome.terms if name.startswith("update")] == [
        f"update_{t}" for t in range(1, 5)
    ]
    assert all(term.isfinite().all() for term in outcome.terms.values())


def test_impossible_budgets_are_refused() -> None:
    model = IODINE(SMALL)
    with pytest.raises(UserError, match="steps must be at least 1, not 0"):
        model.decompose(images(dtype=torch.float32), num_steps=0)
    with pytest.raises(UserError, match="slots must be at least 1"):
        model.decompose(images(dtype=torch.float32), num_slots=0)
    with pytest.raises(UserError, match="likelihood_sigma must be more than 0"):
        replace(SMALL, likelihood_sigma=0.0)


def test_slots_are_interchangeable() -> None:
    model, x, order = perturbed(SMALL), images(), torch.tensor([2, 0, 1])
    noise = torch.randn(2, 3, 4, dtype=torch.float64)
    one, other = (model.infer(x, noise=always(n)).steps[-1] for n in (noise, noise[:, order]))
    torch.testing.assert_close(one.slots[:, order], other.slots)
    torch.testing.assert_close(one.masks[:, order], other.masks)


def test_an_image_does_not_depend_on_its_batch() -> None:
    model, x = perturbed(SMALL), images(B=3)
    together = model.infer(x, noise=noise_per_image([0, 1, 2])).steps[-1].slots
    alone = model.infer(x[1:2], noise=noise_per_image([1])).steps[-1].slots
    torch.testing.assert_close(together[1:2], alone)


def test_inference_is_the_training_pass_without_a_graph() -> None:
    model, x = perturbed(SMALL), images()
    torch.manual_seed(3)
    trained = model(x)
    torch.manual_seed(3)
    inferred = model.infer(x)
    torch.testing.assert_close(trained.loss.detach(), inferred.loss)
    torch.testing.assert_close(trained.steps[-1].slots, inferred.steps[-1].slots)


@pytest.mark.parametrize("T", [1, 4])
def test_one_decode_per_refinement(T: int) -> None:
    model, passes = IODINE(SMALL), []

    def watch(layer: object, inputs: object, output: Tensor) -> None:
        passes.append("forward")
        if output.requires_grad:
            output.register_hook(lambda gradient: passes.append("backward"))

    assert isinstance(model.decoder, SpatialBroadcastDecoder)
    model.decoder.rest[-1].register_forward_hook(watch)
    model(images(dtype=torch.float32), num_steps=T).loss.backward()
    assert passes == ["forward", "backward"] * (T + 1)
    passes.clear()
    model.infer(images(dtype=torch.float32), num_steps=T)
    assert passes == ["forward", "backward"] * T + ["forward"]


def test_the_schedule_moves_the_weight_of_the_kl() -> None:
    model, x = perturbed(replace(SMALL, kl_weight=Schedule.parse("0.5 10:2"))), images()
    noise = [torch.randn(2, 3, 4, dtype=torch.float64) for _ in range(2)]
    assert model.kl_weight.item() == 2  # a trained model's
    found = {}
    for step in (0, 20):
        model.follow({name: schedule.at(step, 100) for name, schedule in model.schedules.items()})
        outcome = model.infer(x, num_steps=1, noise=always(noise[0]))
        found[step] = outcome.loss
        assert model.kl_weight.item() == (0.5 if step == 0 else 2)
    with (
        torch.no_grad()
    ):  # the last step alone counts, and it is not the same: refinement saw another gradient
        expected = (outcome.terms["nll"] + 2 * outcome.terms["kl"]).mean()
    torch.testing.assert_close(found[20], expected)
    assert found[0] != found[20]


def test_official_initialisation() -> None:
    model = IODINE(IODINEConfig())
    conv = model.refine.convolutions[2]
    assert isinstance(conv, nn.Conv2d)
    std = (64 * 9) ** -0.5
    assert conv.weight.abs().max() <= 2 * std
    assert conv.weight.std().item() == pytest.approx(
        0.88 * std, rel=0.02
    )  # a normal cut off at two deviations
    assert present(conv.bias).abs().max() == 0
    assert present(model.refine.lstm).gates.bias.std().item() > 0
    assert model.lam0.abs().max() <= (3 / 128) ** 0.5


def test_cosine_coordinates() -> None:
    grid = cosine_grid(5, 3, torch.zeros(()))
    assert grid.shape == (1, 8, 5, 3)
    torch.testing.assert_close(grid[0, 0, 0], torch.tensor([1.0, 0, -1]))  # half a wave along columns
    torch.testing.assert_close(
        grid[0, 2, :, 0], torch.tensor([1, 0.5**0.5, 0, -(0.5**0.5), -1])
    )  # along rows


def test_training_memory_does_not_grow_with_refinement() -> None:
    """Keeping a second decoder's graph would show; what is kept of a step is small beside it."""
    make = partial(IODINE, IODINEConfig(image_size=48, num_slots=6))
    one, four = peak_memory([Pass(make, 2, training=True, num_steps=T) for T in (1, 4)])
    assert four < 1.15 * one, f"peak grew from {one} bytes at T=1 to {four} at T=4"
