"""EfficientMORL against the authors' own code: what theirs computed, this package computes to 1e-9.

`official_golden.npz` holds weights, images, noise, and what github.com/pemami4911/EfficientMORL made of them: its
files at 67939f06d35a, in float64, without GECO, and with log σ in float64 too (Difference 50). Cases: A; A3, a batch of
three images; B, the mixture likelihood and the broadcast decoder; C, the bottom-up prior; D, the reversed one; the
prior of the others is reversed++. Noise and the columns of positions are in our order (Differences 49 and 24).

Two differences change numbers here. They are undone where they do, 15 in A3 and 19 in C; A, B and D need nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from emorl.geco import GecoConfig
from emorl.models.efficient_morl import EfficientMORL
from emorl.models.efficient_morl_config import EfficientMORLConfig, InferenceConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.probability import Gaussian, Noise
from emorl.schedules import Schedule
from emorl.types import Outcome
from helpers import present

with np.load(Path(__file__).parent / "official_golden.npz") as stored:
    FILE = dict(stored)
META = json.loads(str(FILE["meta"]))
CASES: Mapping[str, Any] = META["cases"]
INPUTS = {"image", "noise"}
L = 3


def configured(case: str) -> EfficientMORLConfig:
    """The settings of a case. The only place that knows how they are grouped here; the file has them flat."""
    flat = dict(CASES[case]["config"])
    assert (flat.pop("position"), flat.pop("kl_start")) == ("ramps", None)  # which have no names any more
    encoder = EncoderConfig(channels=flat.pop("encoder_channels"), stride=flat.pop("encoder_stride"))
    decoder = DecoderConfig(flat.pop("decoder"), channels=flat.pop("decoder_channels"))
    inference = InferenceConfig(**{name: flat.pop(name) for name in ("num_layers", "gru", "attention_norm")})
    objective = ObjectiveConfig(
        sigma=Schedule.parse(flat.pop("likelihood_sigma")),
        kl_weight=Schedule.parse(flat.pop("kl_weight")),
        geco=GecoConfig(**flat.pop("geco")),
        **{
            name: flat.pop(name)
            for name in ("likelihood", "prior", "prior_draw", "loss_weights", "nll_weight")
        },
    )
    groups: dict[str, Any] = {
        "encoder": encoder,
        "decoder": decoder,
        "inference": inference,
        "objective": objective,
    }
    return EfficientMORLConfig(**groups, **flat)


def given_noise(call: Callable[..., Outcome], case: str, I: int, **options: Any) -> Outcome:
    """Calls a model on the images of a case, with its noise. The only place that knows how noise enters."""
    images = torch.from_numpy(FILE[f"{case}/image"]).double() / 256
    count = (L + 1) + L + I  # z^0..z^L, one for each layer's prior, and the refined
    draws = iter(torch.from_numpy(FILE[f"{case}/noise"])[:count])
    outcome = call(images, num_steps=I, noise=Noise(lambda like: next(draws)), **options)
    assert next(draws, None) is None, "a draw was left over"
    return outcome


def weights_of(case: str) -> dict[str, Tensor]:
    """By name in the file. Stored as small integers and a power of two, so they are exact."""
    prefixes = tuple(f"weights/{group}/" for group in CASES[case]["weights"])
    names = [name for name in FILE if name.startswith(prefixes)]
    return {name: torch.from_numpy(FILE[name] * 2.0 ** -META["exponents"][name]) for name in names}


def undo_15(model: EfficientMORL) -> None:
    """Theirs differentiates the mean over B images. Refinement reads the gradient as data, so 1/B is all of it."""
    model.refine.register_forward_pre_hook(lambda _, given: (given[0], given[1] / len(given[0]), given[2]))


def undo_19(model: EfficientMORL) -> None:
    """Theirs holds refinement to N(0, I) under a bottom-up prior, ours to p(z^L | z^{L-1}); the chain is the same."""
    model.prior.register_forward_hook(lambda _, given, priors: (priors[0], given[1]))


UNDO = {"A3": undo_15, "C": undo_19}


def loaded(case: str, *, undo: bool) -> EfficientMORL:
    """The model of a case, with its difference undone or not."""
    model = EfficientMORL(configured(case)).double()
    weights = {name.split("/")[2]: weight for name, weight in weights_of(case).items()}
    scheduled = {name: model.get_buffer(name) for name in model.schedules}  # settings, not weights
    model.load_state_dict(weights | scheduled)
    if undo and case in UNDO:
        UNDO[case](model)
    return model


class Pass:
    """A training pass of I refinements, its gradients, and what hooks saw of the parts that Outcome does not show."""

    def __init__(self, case: str, I: int, *, undo: bool) -> None:
        model = loaded(case, undo=undo)
        layers, priors, updates = (watched(part) for part in (model.layer, model.prior, model.refine))
        self.outcome = given_noise(model, case, I, trace=True)
        self.outcome.loss.backward()
        self.answer = self.outcome.steps[-1]
        self.lam = [lam for _, (lam, _) in layers]
        ((_, (self.priors, self.held_to)),) = priors
        self.updates = [(lam, gradient, delta, h) for (lam, gradient, _), (delta, h) in updates]
        parameters = dict(model.named_parameters())
        names = META["parameters"][CASES[case]["weights"][1]]
        assert sorted(names) == sorted(parameters)
        grads = [parameters[name].grad for name in names]  # None, of what I = 0 does not use, counts as 0
        self.gradients = [torch.zeros(1).double() if grad is None else grad.flatten() for grad in grads]


def watched(module: nn.Module) -> list[tuple[Any, Any]]:
    """Returns a list to which every call of `module` will add what it was given and what it returned."""
    calls: list[tuple[Any, Any]] = []
    module.register_forward_hook(lambda _, given, result: calls.append((given, result)))
    return calls


@cache
def computed(case: str, *, undo: bool) -> dict[str, Tensor]:
    """What this package computes, under the names of the file."""
    passes = [Pass(case, I, undo=undo) for I in range(4)]
    scored, longest = [passes[I] for I in META["steps"]], passes[3]
    found = {
        "stage1/lambda": longest.lam,
        "stage1/sigma": [Gaussian.from_params(lam).sigma for lam in longest.lam],
        "stage1/attention": [present(step.attention) + 1e-8 for step in longest.outcome.steps[:L]],  # their ε
        "stage1/prior_mean": [p.mu for p in longest.priors],
        "stage1/prior_sigma": [p.sigma for p in longest.priors],
        "stage1/kl": [longest.outcome.terms[f"kl_{l}"] for l in range(1, L + 1)],
        "refine/gradient": [gradient for _, gradient, _, _ in longest.updates],
        "refine/delta": [delta for _, _, delta, _ in longest.updates],
        "refine/state": [h for _, _, _, h in longest.updates],
        "refine/lambda": [lam + delta for lam, _, delta, _ in longest.updates],
        "refine/prior_mean": longest.held_to.mu,
        "refine/prior_sigma": longest.held_to.sigma,
        "refine/kl": [one.outcome.terms["kl"] for one in passes[1:]],
        "nll": [one.outcome.terms["nll"] for one in passes],
        "masks": [one.answer.masks for one in passes],
        "colours": [one.answer.components for one in passes][-1 if case == "A3" else 0 :],  # as stored
        "loss": [one.outcome.loss for one in scored],
        "gradient_norm": [torch.stack([g.norm() for g in one.gradients]) for one in scored],
        "gradient_dot": [torch.stack([fingerprint(g) for g in one.gradients]) for one in scored],
        "gradient_small": torch.cat([g for g in longest.gradients if g.numel() <= META["small"]]),
    }
    return {name: torch.stack([*values]).detach() for name, values in found.items()}


def fingerprint(gradient: Tensor) -> Tensor:
    """A product in which every number counts differently: a norm would not see two that are exchanged."""
    return gradient @ torch.arange(len(gradient), dtype=gradient.dtype).cos()


def theirs(case: str) -> dict[str, Tensor]:
    """All that the authors' code computed for a case."""
    names = [name for name in FILE if name.split("/")[0] == case]
    found = {name.removeprefix(f"{case}/"): torch.from_numpy(FILE[name]) for name in names}
    return {name: value for name, value in found.items() if name not in INPUTS}


def assert_equal(ours: Tensor, expected: Tensor, name: str = "") -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("case", CASES)
def test_every_array_equals_the_authors(case: str) -> None:
    ours = computed(case, undo=True)
    for name, expected in theirs(case).items():
        assert_equal(ours[name], expected, name)


def test_no_array_of_the_file_is_left_out() -> None:
    used = {"meta"}
    for case in CASES:
        used |= {f"{case}/{name}" for name in (*INPUTS, *theirs(case))} | set(weights_of(case))
    assert used == set(FILE)
    assert len(FILE) == 185  # nor did the file lose any
    settings = [case["config"] for case in CASES.values()]
    assert {one["prior"] for one in settings} == {"bottom-up", "reversed", "reversed++"}
    assert {one["likelihood"] for one in settings} == {"gaussian", "mixture"}
    assert META["steps"] == [0, 1, 3]


@pytest.mark.parametrize(
    ("case", "losses", "first_gradient"),
    [("A3", [0, -2.27e-4, 2.40e-4], 3), ("C", [0, 39.5, 115.8], 1)],  # A3 has three images
)
def test_what_is_undone_matters(case: str, losses: list[float], first_gradient: float) -> None:
    """Left as they are, Differences 15 (in A3) and 19 (in C) change losses, but nothing before refinement."""
    ours, expected = computed(case, undo=False), theirs(case)
    for name in expected:
        if name.startswith("stage1/"):
            assert_equal(ours[name], expected[name], name)
    for name in ("nll", "masks", "loss", "gradient_norm", "gradient_dot"):
        assert_equal(ours[name][0], expected[name][0], name)
    assert_equal(ours["refine/gradient"][0], first_gradient * expected["refine/gradient"][0])
    assert (ours["loss"] - expected["loss"]).tolist() == pytest.approx(losses, rel=0.01, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_inference_and_decode_equal_the_authors(case: str) -> None:
    """At test time theirs finds, bit for bit, what it finds in training."""
    model, expected = loaded(case, undo=True), theirs(case)
    lam = torch.cat([expected["stage1/lambda"][-1:], expected["refine/lambda"]])
    noise = torch.from_numpy(FILE[f"{case}/noise"])[[L, -3, -2, -1]]  # of z^L and of the refined z
    for I in range(4):
        inferred = given_noise(model.infer, case, I).steps
        assert len(inferred) == I + 1
        for i, step in enumerate(inferred):
            assert_equal(step.masks, expected["masks"][i], f"masks {i} of {I}")
            assert_equal(step.slots, lam[i].chunk(2, dim=-1)[0], f"slots {i} of {I}")
        q = Gaussian.from_params(lam[I])
        decoded = model.decode(q.mu + q.sigma * noise[I])
        assert_equal(decoded.masks, expected["masks"][I], f"masks {I}")
        assert_equal(inferred[-1].components, decoded.components, f"colours {I}")
    assert_equal(decoded.components, expected["colours"][-1], "colours")
