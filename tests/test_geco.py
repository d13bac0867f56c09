"""GECO: the weight follows the constraint, targets are checked, evaluation leaves it alone."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emorl.errors import UserError
from emorl.geco import AutoGeco, Geco, GecoConfig
from emorl.models import build
from emorl.models.efficient_morl import EfficientMORL
from emorl.models.efficient_morl_config import EfficientMORLConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.runs.presets import PRESETS

VARIANCE = torch.tensor(0.05)
TETROMINOES: dict[str, Any] = {"elements": 3 * 35 * 35, "sigma": 0.3}


def small(config: GecoConfig) -> EfficientMORLConfig:
    """A small model with this GECO."""
    return EfficientMORLConfig(
        image_size=16,
        slot_size=4,
        encoder=EncoderConfig(channels=4),
        decoder=DecoderConfig("lean"),
        objective=ObjectiveConfig(geco=config),
    )


def geco(**changes: Any) -> Geco:
    return Geco(-100.0, **{"step_size": 0.01, "decay": 0.9, "warm_up": 0, **changes})


def test_weight_rises_above_the_target_and_falls_below_it() -> None:
    g = geco()
    weights = [g.weight.item()]
    for _ in range(10):
        g.update(torch.tensor(-50.0), VARIANCE)  # worse than the target
        weights.append(g.weight.item())
    assert weights[2:] == sorted(weights[2:])
    assert weights[-1] > weights[0]
    for _ in range(100):
        g.update(torch.tensor(-150.0), VARIANCE)
    assert g.weight.item() == pytest.approx(F.softplus(torch.tensor(0.55)).item())  # the floor
    assert g.weight.item() > 1


def test_follows_the_published_recursion() -> None:
    """Plain ELBO for `warm_up` steps, then the average starts at the first gap, then ζ moves."""
    g, zeta = geco(warm_up=3), 0.55
    average: float | None = None
    for step, nll in enumerate([-10.0, -20.0, -30.0, -40.0, -50.0, -60.0]):
        assert g.weight.item() == pytest.approx(1.0 if step < 3 else math.log1p(math.exp(zeta)))
        g.update(torch.tensor(nll), VARIANCE)
        if step == 3:
            average = -100 - nll
        elif average is not None:
            average = 0.9 * average + 0.1 * (-100 - nll)
            zeta = max(0.55, zeta - 0.01 * average)
    assert g.zeta.item() == pytest.approx(zeta)
    assert zeta > 0.55


def test_state_survives_a_round_trip() -> None:
    g = geco()
    for _ in range(5):
        g.update(torch.tensor(-20.0), VARIANCE)
    other = geco()
    other.load_state_dict(g.state_dict())
    g.update(torch.tensor(-20.0), VARIANCE)
    other.update(torch.tensor(-20.0), VARIANCE)
    assert other.weight == g.weight


def test_evaluation_leaves_it_alone_and_adapt_moves_it() -> None:
    model = EfficientMORL(small(GecoConfig(target_mse=0.001, warm_up=0, step_size=0.1)))
    assert model.geco is not None
    before = copy.deepcopy(model.geco.state_dict())
    outcome = model.infer(torch.rand(2, 3, 16, 16))
    assert model.geco.state_dict() == before
    for _ in range(2):
        model.adapt({name: term.mean() for name, term in outcome.terms.items()})
    assert model.geco.weight > 1.01


def test_a_target_can_be_said_in_three_ways() -> None:
    floor = TETROMINOES["elements"] * math.log(0.3)
    assert GecoConfig(target=-4400.0).resolve(**TETROMINOES) == -4400
    assert GecoConfig(target_per_element=-1.2).resolve(**TETROMINOES) == pytest.approx(-1.2 * 3675)
    assert GecoConfig(target_mse=0.001).resolve(**TETROMINOES) == pytest.approx(floor + 3675 * 0.001 / 0.18)
    assert GecoConfig().resolve(**TETROMINOES) is None


def test_target_mse_is_the_error_of_a_reconstruction_on_the_target() -> None:
    from emorl.probability import gaussian_nll

    x = torch.full((1, 3, 35, 35), 0.5, dtype=torch.float64)
    masks = torch.zeros(1, 1, 1, 35, 35, dtype=torch.float64)
    nll = gaussian_nll(x, masks, (x + 0.1)[:, None], 0.3)
    assert nll.item() == pytest.approx(GecoConfig(target_mse=0.01).resolve(**TETROMINOES))


@pytest.mark.parametrize("config", [GecoConfig(target=-4500.0), GecoConfig(target_per_element=-1.224),
                                    GecoConfig(target_mse=0.0), GecoConfig(target_mse=-1.0)])  # fmt: skip
def test_unreachable_targets_are_refused_with_the_floor(config: GecoConfig) -> None:
    with pytest.raises(UserError, match=r"cannot be reached.*-4424\.6"):
        config.resolve(**TETROMINOES)


def test_the_papers_unreachable_target_must_be_allowed_explicitly() -> None:
    model = PRESETS["efficient-morl/tetrominoes-paper"].model
    config = model.objective.geco
    built = EfficientMORL(model).geco
    assert isinstance(built, Geco)
    assert built.target == config.target == -4500
    with pytest.raises(UserError, match="cannot be reached"):
        replace(config, allow_unreachable=False).resolve(**TETROMINOES)


def test_two_targets_are_one_too_many() -> None:
    with pytest.raises(UserError, match="target and target_mse"):
        GecoConfig(target=-1.0, target_mse=0.1).resolve(**TETROMINOES)


def auto(**changes: Any) -> AutoGeco:
    return AutoGeco(
        **{**TETROMINOES, "unexplained": 0.02, "rate": 0.004, "decay": 0.9, "warm_up": 0, **changes}
    )


def nll_of(mse: float) -> torch.Tensor:
    return torch.tensor(3675 * (math.log(0.3) + mse / 0.18))


def test_auto_target_is_a_share_of_the_variance() -> None:
    g = auto()
    for _ in range(500):
        g.update(nll_of(0.02), VARIANCE)  # 40 % of the variance are left
    risen = g.weight.item()
    assert risen == pytest.approx(math.exp(0.004 * 500), rel=0.01)
    for _ in range(200):
        g.update(nll_of(0.02 * 0.05), VARIANCE)  # exactly the target
    resting = g.weight.item()
    assert risen <= resting < 1.2 * risen  # once the moving average has arrived there, the weight rests
    for _ in range(200):
        g.update(nll_of(0.02 * 0.05), VARIANCE)
    assert g.weight.item() == pytest.approx(resting, rel=1e-3)
    for _ in range(1000):
        g.update(nll_of(0.0001), VARIANCE)
    assert g.weight.item() == 1


def test_auto_waits_and_has_a_speed() -> None:
    g = auto(warm_up=10, rate=0.1)
    weights = []
    for _ in range(12):
        g.update(nll_of(0.02), VARIANCE)
        weights.append(g.weight.item())
    assert weights == pytest.approx([1.0] * 10 + [math.exp(0.1), math.exp(0.2)])


def test_auto_target_does_not_depend_on_contrast_or_size() -> None:
    one = auto()
    other = auto(elements=3 * 96**2, sigma=0.1)
    for _ in range(50):
        one.update(nll_of(0.02), VARIANCE)
        other.update(torch.tensor(3 * 96**2 * (math.log(0.1) + 0.02 * 0.3 / 0.02)), 0.3 * VARIANCE)
    assert one.weight.item() == pytest.approx(other.weight.item(), rel=1e-3)


def test_auto_is_a_target_like_any_other() -> None:
    config = small(GecoConfig(target="auto", warm_up=0))
    model = build(config)
    x = torch.rand(2, 3, 16, 16)
    for _ in range(3):
        model.adapt({name: term.mean() for name, term in model.infer(x).terms.items()})
    assert model.infer(x).terms["nll_weight"].item() > 1
    other = build(config)
    other.load_state_dict(model.state_dict())
    assert other.infer(x).terms["nll_weight"] == model.infer(x).terms["nll_weight"]
