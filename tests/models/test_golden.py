"""Numeric fingerprints of all models at seed 0, in float64. They change only on purpose."""

from __future__ import annotations

import pytest
import torch

from emorl.models import build
from emorl.probability import scene_noise
from small_models import TOYS, squares

GOLDEN: dict[str, dict[str, float]] = {
    "efficient-morl": {
        "loss": 4666.4771,
        "gradient": 27339.407,
        "mse": 0.44561353,
        "slots": 14.576616,
        "kl_hierarchical": 530.64116,
        "nll_stage1": 846.42874,
        "nll": 970.00182,
        "kl": 233.3861,
        "nll_weight": 3.5,
        "variance": 0.15190972,
    },
    "efficient-morl recipe": {
        "loss": 8273.4228,
        "gradient": 12737.266,
        "mse": 0.59034665,
        "slots": 15.359817,
        "kl_hierarchical": 638.57935,
        "nll_stage1": 1571.6367,
        "nll": 1579.9537,
        "kl": 273.41983,
        "nll_weight": 3.5,
        "variance": 0.15190972,
    },
    "slot-attention": {
        "loss": 2.2127919,
        "gradient": 24.543883,
        "mse": 0.3178724,
        "slots": 11.571608,
        "error": 2.2127919,
    },
    "slot-mlp": {
        "loss": 1.1106873,
        "gradient": 4.1561199,
        "mse": 0.27674505,
        "slots": 6.519504,
        "error": 1.1106873,
    },
    "genesis": {
        "loss": 134.83046,
        "gradient": 4084.8588,
        "mse": 0.25602302,
        "slots": 3.6954181,
        "nll": 134.55784,
        "kl": 123.91701,
        "kl_mask": 98.717566,
        "kl_component": 25.199443,
        "kl_weight": 0.0022,
    },
    "genesis-s": {
        "loss": 246.19739,
        "gradient": 4800.0083,
        "mse": 0.29317155,
        "slots": 2.7911298,
        "nll": 245.98163,
        "kl": 98.070375,
        "kl_mask": 98.070375,
        "kl_weight": 0.0022,
    },
    "monet": {
        "loss": 1857.7165,
        "gradient": 6230.9524,
        "mse": 0.35676584,
        "slots": 1.0809042,
        "nll": 1803.6576,
        "kl": 119.70448,
        "mask_kl": 42.088436,
    },
    "iodine": {
        "loss": 4664.5289,
        "gradient": 9092.905,
        "mse": 0.30235506,
        "slots": 6.4234871,
        "nll": 3125.1588,
        "kl": 125.12362,
    },
    "genesis-v2": {
        "loss": 2434.6687,
        "gradient": 879.02199,
        "mse": 0.24819943,
        "slots": 2.8704938,
        "nll": 2315.7701,
        "kl": 118.89859,
        "mask_kl": 141.63547,
        "kl_weight": 1.0,
    },
}


def fingerprint(name: str) -> dict[str, float]:
    """A training pass with its gradient, and the answer at test time."""
    torch.manual_seed(0)
    model, x = build(TOYS[name]).double(), squares(3).double()
    outcome = model(x, noise=scene_noise(1, range(3)))
    outcome.loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    answer = model.decompose(x, seed=2)
    return {
        "loss": outcome.loss.item(),
        "gradient": torch.cat(gradients).norm().item(),
        "mse": (answer.image - x).square().mean().item(),
        "slots": answer.slots.norm().item(),
        **{term: value.mean().item() for term, value in outcome.terms.items() if term in model.terms},
    }


def test_no_model_is_left_out() -> None:
    assert set(GOLDEN) == set(TOYS)


@pytest.mark.parametrize("name", TOYS)
def test_fingerprint(name: str) -> None:
    assert fingerprint(name) == pytest.approx(GOLDEN[name], rel=1e-6)
