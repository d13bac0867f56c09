"""What every model of MODELS must fulfil; written once."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import safetensors.torch
import torch

from emorl.data import DataConfig, open_dataset
from emorl.errors import UserError
from emorl.models import MODELS, build
from emorl.models.base import Model
from emorl.models.monet import MONet
from emorl.probability import noise_from, noise_per_image
from emorl.runs.presets import PRESETS
from emorl.types import Scene


@pytest.fixture(params=MODELS)
def config(request: pytest.FixtureRequest) -> object:
    return PRESETS[f"{request.param}/tetrominoes-tiny"].model


@pytest.fixture
def model(config: object) -> Model:
    return build(config)


@pytest.fixture
def x() -> torch.Tensor:
    scenes = open_dataset(DataConfig(), "train")
    return Scene.stack([scenes[index] for index in range(4)]).image


def test_shapes(model: Model, x: torch.Tensor) -> None:
    d = model.decompose(x)
    K = model.config.num_slots
    assert d.masks.shape == (4, K, 1, 35, 35)
    assert d.components.shape == (4, K, 3, 35, 35)
    assert d.slots.shape[:2] == (4, K)
    assert d.image.shape == x.shape
    assert d.segmentation.shape == (4, 35, 35)


def test_masks_partition_the_image(model: Model, x: torch.Tensor) -> None:
    for step in model.infer(x, trace=True).steps:
        torch.testing.assert_close(step.masks.sum(dim=1), torch.ones_like(step.masks[:, 0]))
        assert step.components.min() >= 0
        assert step.components.max() <= 1


def test_every_parameter_learns(model: Model, x: torch.Tensor) -> None:
    model(x).loss.backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]
    assert model.is_fully_used(None)


def test_no_graph_survives_inference(model: Model, x: torch.Tensor) -> None:
    outcome = model.infer(x, trace=True)
    tensors = [outcome.loss, *outcome.terms.values()]
    tensors += [t for step in outcome.steps for t in (step.masks, step.components, step.slots)]
    assert not any(t.requires_grad for t in tensors)
    assert torch.is_grad_enabled()


def test_inference_changes_no_state(model: Model, x: torch.Tensor) -> None:
    before = copy.deepcopy(model.state_dict())
    model.infer(x)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_terms_are_per_image_or_single(model: Model, x: torch.Tensor) -> None:
    for name, term in model(x).terms.items():
        assert not term.requires_grad, name
        assert term.shape in ((4,), ()), name


def test_seed_determines_result(model: Model, x: torch.Tensor) -> None:
    torch.manual_seed(5)
    one = model.decompose(x)
    torch.manual_seed(5)
    other = model.decompose(x)
    assert torch.equal(one.masks, other.masks)


def answer(model: Model, x: torch.Tensor, **budget: int) -> tuple[int, str]:
    """The number of slots of the answer, or why there is none."""
    try:
        return model.decompose(x, **budget).masks.shape[1], ""
    except UserError as refusal:
        return 0, str(refusal)


def test_budgets_are_honoured_or_refused(model: Model, x: torch.Tensor) -> None:
    K, refusal = answer(model, x, num_slots=6)
    assert K == 6 or "slots it was trained with" in refusal
    K, refusal = answer(model, x, num_steps=2)
    assert model.config.num_slots == K or "does not iterate" in refusal
    assert (K > 0) == hasattr(model.config, "num_steps")
    assert "slots" in answer(model, x, num_slots=0)[1]


def test_weights_round_trip(config: object, model: Model, x: torch.Tensor, tmp_path: Path) -> None:
    safetensors.torch.save_file({n: t.contiguous() for n, t in model.state_dict().items()}, tmp_path / "w")
    other = build(config)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "w"))
    torch.manual_seed(5)
    one = model.decompose(x)
    torch.manual_seed(5)
    assert torch.equal(one.masks, other.decompose(x).masks)


def test_loss_falls_on_one_batch(model: Model, x: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = model(x).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_decode_renders_slots_and_edited_slots(model: Model, x: torch.Tensor) -> None:
    whole = model.decompose(x)
    same = model.decode(whole.slots)
    if not isinstance(model, MONet):  # its masks are attention's, and slots only remember them
        torch.testing.assert_close(same.masks, whole.masks)
    torch.testing.assert_close(same.components, whole.components)
    assert not torch.equal(model.decode(whole.slots + 1).image, whole.image)


def test_more_tries_explain_every_image_at_least_as_well(model: Model, x: torch.Tensor) -> None:
    def error(tries: int) -> torch.Tensor:
        with noise_from(noise_per_image(range(4))):
            return (model.decompose(x, tries=tries).image - x).square().mean(dim=(1, 2, 3))

    one, three = error(1), error(3)
    assert (three <= one).all()
    torch.manual_seed(1)
    is_random = not torch.equal(model.decompose(x).masks, model.decompose(x).masks)
    assert bool((three < one).any()) == is_random
    with pytest.raises(UserError, match="tries must be at least 1"):
        error(0)
