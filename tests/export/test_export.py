"""Exported models compute what PyTorch computes, for any number of images, and say what they are."""

from __future__ import annotations

import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.export import export as module
from emorl.export.export import Exported, TooFar, export
from emorl.export.formats import ABOUT, encode
from emorl.export.parts import Part
from emorl.export.trace import trace
from emorl.files import MARK, is_ours
from emorl.models import build
from emorl.models.base import Model
from emorl.probability import Noise
from emorl.runs.run import load, released
from helpers import replayed, varied
from small_models import TOYS, squares

NEW_BATCH = 5  # neither traced nor tried by `export` itself


def toy(name: str, **changes: Any) -> Model:
    torch.manual_seed(0)
    return build(varied(TOYS[name], **changes)).eval()


def inputs_for(part: Part, images: Tensor) -> list[Tensor]:
    torch.manual_seed(1)
    noise = [
        torch.randn(len(images), *shape) for name, shape in part.inputs.items() if name.startswith("noise")
    ]
    return [images, *noise] if part.name == "infer" else [torch.randn(len(images), *part.inputs["slots"])]


def run_onnx(path: Path, part: Part, inputs: list[Tensor]) -> list[Tensor]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {name: tensor.numpy() for name, tensor in zip(part.inputs, inputs, strict=True)}
    return [torch.from_numpy(output) for output in session.run(list(part.outputs), given)]


def drawn(inputs: list[Tensor]) -> list[Tensor]:
    """The single draws in the inputs of inference: none, one, or several behind each other."""
    return [draw for noise in inputs[1:] for draw in (noise.unbind(dim=1) if noise.ndim == 4 else [noise])]


def expected(model: Model, part: Part, inputs: list[Tensor]) -> list[Tensor]:
    """What the model itself says, by the way that users take: `infer` or `decode`."""
    if part.name == "decode":
        painted = model.decode(inputs[0])
        return [painted.masks, painted.components]
    noise = iter(drawn(inputs))
    found = model.infer(
        inputs[0],
        num_slots=part.num_slots,
        num_steps=part.num_steps,
        noise=Noise(lambda like: next(noise), means=True),
    ).steps[-1]
    return [found.masks, found.components, found.slots]


def assert_close(some: list[Tensor], others: list[Tensor], tolerance: float = 1e-4) -> None:
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


def test_onnx_refines_as_pytorch_does(tmp_path: Path) -> None:
    model = toy("efficient-morl", inference={"num_layers": 1})
    found = export(model, tmp_path / "model.onnx", format="onnx", num_steps=1, images=squares(3))
    assert found.difference < 1e-4
    inputs = inputs_for(found.part, squares(NEW_BATCH))
    refined = run_onnx(found.path, found.part, inputs)
    assert_close(refined, expected(model, found.part, inputs))
    unrefined = model.infer(inputs[0], num_steps=0, noise=replayed(drawn(inputs), means=True)).steps[-1]
    assert (
        refined[2] - unrefined.slots
    ).abs().max() > 0.01  # refinement does something, and it is in the file
    proto = onnx.load(found.path)
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in proto.graph.input] == ["batch"] * 2
    about = json.loads(proto.doc_string)
    assert about["software"] == MARK
    assert (about["model"], about["steps"], about["slots"]) == ("EfficientMORL", 1, 3)
    assert is_ours(found.path)


def test_several_starts_are_in_the_file(tmp_path: Path) -> None:
    model = toy("efficient-morl", inference={"num_layers": 1, "starts": 3})
    found = export(model, tmp_path / "model.pt2", format="pt2", num_steps=0, images=squares(3))
    inputs = inputs_for(found.part, squares(NEW_BATCH))
    assert_close(list(torch.export.load(found.path).module()(*inputs)), expected(model, found.part, inputs))


def test_onnx_keeps_the_smallest_numbers(tmp_path: Path) -> None:
    """PyTorch's optimiser would leave out what is added to attention, so that no slot divides by zero."""

    def compute(x: Tensor) -> tuple[Tensor, ...]:
        return ((x + 1e-8) / (x + 1e-8).sum(dim=1, keepdim=True),)

    part = Part("infer", {"x": (4,)}, ("shares",), compute, 1, None)
    path = tmp_path / "shares.onnx"
    path.write_bytes(encode(trace(compute, [(4,)]), part, "onnx", {}))
    (shares,) = run_onnx(path, part, [torch.zeros(NEW_BATCH, 4)])
    torch.testing.assert_close(shares, torch.full((NEW_BATCH, 4), 0.25))


def test_onnx_in_64_bits_keeps_all_digits_of_numbers(tmp_path: Path) -> None:
    """PyTorch's exporter would round π, and the steps of a row of places, to 32 bits."""

    def compute(x: Tensor) -> tuple[Tensor, ...]:
        places = torch.linspace(0, 1, 7, dtype=torch.float64)
        return ((math.pi * (x.double() + places) + 0.1).sin() / 3.3,)

    part = Part("infer", {"x": (7,)}, ("waves",), compute, 1, None)
    path = tmp_path / "waves.onnx"
    path.write_bytes(encode(trace(compute, [(7,)], for_64_bits=True), part, "onnx", {}))
    x = torch.rand(NEW_BATCH, 7)
    (waves,) = run_onnx(path, part, [x])
    torch.testing.assert_close(waves, compute(x)[0], rtol=0, atol=1e-14)


def test_64_bits_are_tried_where_32_are_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path, write = toy("efficient-morl recipe"), tmp_path / "decoder.pt2", module.write

    def refuse_32(*words: Any, **options: Any) -> Exported:
        if 32 in words:
            raise TooFar("It differs in 32 bits.")
        return write(*words, **options)

    monkeypatch.setattr(module, "write", refuse_32)
    with pytest.raises(UserError, match="It differs in 32 bits"):
        export(model, path, format="pt2", part="decode", bits=32)
    found = export(model, path, format="pt2", part="decode")
    assert found.bits == 64
    assert found.difference < 1e-6
    assert 0 < found.rounding < 1e-4
    (slots,) = inputs_for(found.part, squares(NEW_BATCH))
    masks, components = torch.export.load(path).module()(slots)
    assert masks.dtype == components.dtype == torch.float32
    assert_close([masks, components], expected(model, found.part, [slots]))


def test_pt2_is_reloaded_by_pytorch_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy("efficient-morl recipe")
    path = tmp_path / "decoder.pt2"
    found = export(model, path, format="pt2", part="decode", num_slots=4)
    inputs = inputs_for(found.part, squares(NEW_BATCH))
    assert_close(list(torch.export.load(path).module()(*inputs)), expected(model, found.part, inputs))
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(ABOUT)]
        assert json.loads(archive.read(name))["slots"] == 4
    assert is_ours(path)
    # A file that computes something else is not kept.
    before = path.read_bytes()
    monkeypatch.setattr(module, "largest_difference", lambda *results: 0.5)
    with pytest.raises(UserError, match=r"differs from PyTorch by 0\.5"):
        export(model, path, format="pt2", part="decode")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"needs onnxscript.*pip install 'emorl\[export\]'"):
        export(toy("slot-mlp"), tmp_path / "model.onnx", format="onnx")


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_text("mine")
    with pytest.raises(UserError, match="was not written by emorl"):
        export(toy("slot-mlp"), tmp_path / "model.pt2", format="pt2")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "pt2"])
@pytest.mark.parametrize("part", ["infer", "decode"])
@pytest.mark.parametrize("name", TOYS)
def test_every_kind_of_model_is_exported(name: str, part: Any, format: Any, tmp_path: Path) -> None:
    model = toy(name)
    found = export(model, tmp_path / f"model.{format}", format=format, part=part, images=squares(3))
    inputs = inputs_for(found.part, squares(NEW_BATCH))
    results = (
        run_onnx(found.path, found.part, inputs)
        if format == "onnx"
        else list(torch.export.load(found.path).module()(*inputs))
    )
    assert_close(results, expected(model, found.part, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "pt2"])
@pytest.mark.parametrize("part", ["infer", "decode"])
@pytest.mark.parametrize("name", released())
def test_released_weights_are_exported_with_their_refinements(
    name: str, part: Any, format: Any, tmp_path: Path
) -> None:
    from emorl.runs.run import Run

    scenes = Run.open(name).scenes("test")
    images = torch.stack([scenes[index].image for index in range(3)])
    found = export(load(name), tmp_path / f"model.{format}", format=format, part=part, images=images)
    assert found.difference < 1e-4
