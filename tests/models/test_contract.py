"""What every model of MODELS must fulfil, with its own decoder, the one of single pixels, and a lattice of pixels."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from emorl.data import DataConfig, open_dataset
from emorl.errors import UserError
from emorl.models import MODELS, build
from emorl.models.base import Model
from emorl.models.monet import MONet
from emorl.models.parts import DecoderConfig
from emorl.nn.pixels import PixelDecoder
from emorl.probability import scene_noise
from emorl.runs.presets import PRESETS
from emorl.types import Scene
from helpers import present, varied

PIXELS = DecoderConfig("pixels", channels=8)


def variants() -> dict[str, Any]:
    """Configs by name: all tiny presets, and those models whose decoder can be another, with that of single pixels."""
    kinds = [name.removesuffix("/tetrominoes-tiny") for name in PRESETS if name.endswith("/tetrominoes-tiny")]
    found = {kind: PRESETS[f"{kind}/tetrominoes-tiny"].model for kind in kinds}
    slot_models = [kind for kind in kinds if isinstance(found[kind].decoder, DecoderConfig)]
    found |= {f"{kind} pixels": varied(found[kind], decoder=PIXELS) for kind in slot_models}
    found |= {
        f"{kind} lattice": varied(found[f"{kind} pixels"], block=3)
        for kind in ("slot-attention", "slot-mlp", "iodine", "monet", "genesis-v2")
    }
    found["monet small attention"] = varied(found["monet"], attention_stride=2)
    found["efficient-morl lattice"] = varied(found["efficient-morl pixels"], objective={"block": 3})
    return found


VARIANTS = variants()


def test_no_model_is_left_out() -> None:
    assert {type(config) for config in VARIANTS.values()} == {model.Config for model in MODELS.values()}
    assert {name for name in VARIANTS if name.endswith("pixels")} == {
        f"{kind} pixels" for kind in set(MODELS) - {"genesis"}  # whose decoder knows nothing of masks
    }  # fmt: skip


@pytest.fixture(params=VARIANTS)
def config(request: pytest.FixtureRequest) -> Any:
    return VARIANTS[request.param]


@pytest.fixture
def model(config: Any) -> Model:
    return build(config)


def logged(model: Model, x: torch.Tensor) -> set[str]:
    """What a pass logs, without update_1.. of steps and kl_1.. of layers."""
    return {name for name in model.infer(x).terms if not re.fullmatch(r"(update|kl)_\d+", name)}


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
    """Each gets a gradient, and a step along it changes each."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    steps = None if model.step_range is None else 2  # the memory of refinement matters from the second on
    for _ in range(2):  # in the first pass some see nothing but zeros
        optimizer.zero_grad()
        model(x, num_steps=steps).loss.backward()
        optimizer.step()
    assert not [name for name, p in model.named_parameters() if p.grad is None]
    assert not [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
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


def test_terms_are_those_declared(model: Model, x: torch.Tensor) -> None:
    assert logged(model, x) == set(model.terms)
    assert logged(model, x) == {n for n in model(x).terms if not re.fullmatch(r"(update|kl)_\d+", n)}


def test_terms_are_per_image_or_single(model: Model, x: torch.Tensor) -> None:
    for name, term in model(x).terms.items():
        assert not term.requires_grad, name
        assert term.shape in ((4,), ()), name


def test_seed_determines_result(model: Model, x: torch.Tensor) -> None:
    """To the last bit, and without a look at PyTorch's generator."""
    before = torch.get_rng_state()
    one, same, other = (model.decompose(x, seed=seed, sample=True) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    for name in ("masks", "components", "slots"):
        assert torch.equal(getattr(one, name), getattr(same, name)), name
    is_random = model.title != "SlotMLP"
    assert torch.equal(one.image, other.image) != is_random
    torch.manual_seed(5)
    first = model.decompose(x)
    torch.manual_seed(5)
    assert torch.equal(first.masks, model.decompose(x).masks)


def test_an_image_does_not_see_its_neighbours(model: Model, x: torch.Tensor) -> None:
    model.double()
    together = model.infer(x.double(), noise=scene_noise(3, [7, 8, 9, 10])).steps[-1]
    alone = model.infer(x[2:3].double(), noise=scene_noise(3, [9])).steps[-1]
    for name in ("masks", "components", "slots"):
        ours, expected = getattr(alone, name), getattr(together, name)[2:3]
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9, msg=name)


def test_ranges_are_honoured_and_others_refused(model: Model, x: torch.Tensor) -> None:
    least, most = model.slot_range
    for K in (least, least + 5 if most is None else most):
        assert model.decompose(x, num_slots=K).masks.shape[1] == K
    for K in [least - 1, *([] if most is None else [most + 1])]:
        with pytest.raises(UserError, match="slots"):
            model.decompose(x, num_slots=K)
    if model.step_range is None:
        assert not hasattr(model.config, "num_steps")
        with pytest.raises(UserError, match=f"{model.title} does not iterate"):
            model.decompose(x, num_steps=1)
        return
    least, most = model.step_range
    assert most is None
    for I in (least, least + 2):
        terms = model.infer(x, num_steps=I).terms
        refined = [name for name in terms if name.startswith("update_")]
        assert len(refined) == (I if "kl" in model.terms else 0)
    with pytest.raises(UserError, match=f"steps must be at least {least}"):
        model.decompose(x, num_steps=least - 1)


def test_wrong_images_are_refused(model: Model, x: torch.Tensor) -> None:
    with pytest.raises(UserError, match=r"\(B, 3, 35, 35\); got \(4, 3, 34, 35\)"):
        model.decompose(x[:, :, :-1])
    with pytest.raises(UserError, match="Divide 8-bit images by 255"):
        model.decompose(255 * x)


def test_weights_round_trip(config: object, model: Model, x: torch.Tensor, tmp_path: Path) -> None:
    safetensors.torch.save_file({n: t.contiguous() for n, t in model.state_dict().items()}, tmp_path / "w")
    other = build(config)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "w"))
    torch.manual_seed(5)
    one = model.decompose(x)
    torch.manual_seed(5)
    assert torch.equal(one.masks, other.decompose(x).masks)


def test_half_precision_trains(model: Model, x: torch.Tensor) -> None:
    """Convolutions and products in bf16, losses and answers in 32 bits: not far from what 32 bits give."""
    noise = scene_noise(0, range(4))
    with torch.autocast("cpu", torch.bfloat16):
        outcome = model(x, noise=noise)
    outcome.loss.backward()
    assert all(present(p.grad).isfinite().all() for p in model.parameters())
    expected = model(x, noise=scene_noise(0, range(4))).loss
    assert outcome.loss.dtype.itemsize >= 4
    masks = outcome.steps[-1].masks
    torch.testing.assert_close(masks.sum(dim=1), torch.ones_like(masks[:, 0]))
    assert masks.dtype == torch.float32
    torch.testing.assert_close(outcome.loss, expected, rtol=0.1, atol=0.05)


def test_decode_renders_slots_and_edited_slots(model: Model, x: torch.Tensor) -> None:
    whole = model.decompose(x)
    same = model.decode(whole.slots)
    if not isinstance(model, MONet):  # its masks are attention's, and slots only remember them
        torch.testing.assert_close(same.masks, whole.masks)
    torch.testing.assert_close(same.components, whole.components)
    assert not torch.equal(model.decode(whole.slots + 1).image, whole.image)


def test_samples_lie_around_the_means(model: Model, x: torch.Tensor) -> None:
    """Only posteriors are sampled or not: what tells slots apart at the start is the same draw."""
    means, samples = (model.decompose(x, seed=1, sample=sample) for sample in (False, True))
    has_posterior = "kl" in model.terms
    assert torch.equal(means.components, samples.components) != has_posterior
    K = model.config.num_slots
    pairs = [(j, k) for j in range(K) for k in range(j)]
    assert not any(torch.equal(means.slots[:, j], means.slots[:, k]) for j, k in pairs)


@pytest.mark.parametrize("size", [20, 50])
def test_pictures_of_any_size(model: Model, x: torch.Tensor, size: int) -> None:
    own, found = model.decompose(x, seed=1), model.decompose(x, seed=1, size=size)
    K = model.config.num_slots
    for parts in (found, model.decode(own.slots, size=size)):
        assert parts.masks.shape == (4, K, 1, size, size)
        assert parts.components.shape == (4, K, 3, size, size)
        torch.testing.assert_close(parts.masks.sum(dim=1), torch.ones(4, 1, size, size))
        assert parts.masks.min() >= 0
        assert parts.components.min() >= 0
        assert parts.components.max() <= 1
    assert torch.equal(found.slots, own.slots)
    assert (found.attention is None) == (own.attention is None)
    for name in ("masks", "components"):  # they show the same: shrunk to one size they look the same
        difference = getattr(found.resized(10), name) - getattr(own.resized(10), name)
        assert difference.abs().mean() < 0.01, name
    assert torch.equal(model.decompose(x, seed=1, size=35).masks, own.masks)


def test_the_pixels_decoder_paints_other_sizes(model: Model, x: torch.Tensor) -> None:
    """At three times the size the middle of each 3 x 3 is the pixel itself; only painting has more to say around it."""
    own, large = model.decompose(x, seed=1), model.decompose(x, seed=1, size=105)
    is_painted = isinstance(model.decoder, PixelDecoder)
    assert is_painted == model.decoder.paints_anywhere
    for name in ("masks", "components"):
        middle = getattr(large, name)[..., 1::3, 1::3]
        torch.testing.assert_close(middle, getattr(own, name), rtol=0, atol=1e-5, msg=name)
    difference = large.components - own.resized(105).components
    assert (difference.abs().max() > 1e-3) == is_painted


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.endswith("pixels")])
def test_frames_of_the_pixels_decoder_start_in_the_middle(name: str) -> None:
    """Whatever a model's own way to initialise weights is."""
    decoder = build(VARIANTS[name]).decoder
    assert isinstance(decoder, PixelDecoder)
    frame = decoder.frame
    assert (frame.bias == 0).all()
    assert frame.weight.std().item() == pytest.approx(0.3 / frame.in_features**0.5, rel=0.4)


def test_more_tries_explain_every_image_at_least_as_well(model: Model, x: torch.Tensor) -> None:
    def error(tries: int) -> torch.Tensor:
        return (model.decompose(x, tries=tries, seed=0).image - x).square().mean(dim=(1, 2, 3))

    one, four = error(1), error(4)
    assert (four <= one).all()
    is_random = not torch.equal(model.decompose(x, seed=1).masks, model.decompose(x, seed=2).masks)
    assert bool((four < one).any()) == is_random
    with pytest.raises(UserError, match="tries must be at least 1"):
        error(0)
