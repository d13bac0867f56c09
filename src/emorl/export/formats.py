"""The two formats of exported models, how each is written, and how it is run again to see whether it is right.

onnx runs in onnxruntime and in many other programs, without PyTorch. pt2 is PyTorch's own, for torch.export.load.
"""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

from emorl.errors import missing
from emorl.export.parts import Part
from emorl.files import MARK

Format = Literal["onnx", "pt2"]
Runner = Callable[..., list[Tensor]]  # batches of the inputs -> batches of the outputs
ABOUT = "emorl.json"  # the file in a pt2 archive that says what the model is
TRACED = 2  # images in the example that PyTorch's exporter wants


def check_packages(format: Format) -> None:
    """Raises UserError if a package that a format needs is not installed."""
    if format == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            if find_spec(package) is None:
                raise missing(package, "export", "The format onnx")


def encode(graph: GraphModule, part: Part, format: Format, about: Mapping[str, Any]) -> bytes:
    """Returns the content of the file; `about` says what the model is, in words and numbers."""
    text = json.dumps({"software": MARK, **about})
    with quiet():
        program = exported(graph, part)
        return to_pt2(program, text) if format == "pt2" else to_onnx(program, part, text)


def exported(graph: GraphModule, part: Part) -> ExportedProgram:
    """The graph as PyTorch's exporters have it, for any number of images."""
    inputs = tuple(torch.zeros(TRACED, *shape) for shape in part.inputs.values())
    batch = Dim("batch", min=1)
    return torch.export.export(graph, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs))


def to_pt2(program: ExportedProgram, about: str) -> bytes:
    """As an archive of PyTorch's."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={ABOUT: about})
    return buffer.getvalue()


def to_onnx(program: ExportedProgram, part: Part, about: str) -> bytes:
    """As one ONNX model, weights included; what it is stands in its doc_string.

    Not optimised: PyTorch's optimiser for ONNX takes 1e-8 for 0, and without it a slot that owns no token divides by
    almost nothing. Runtimes optimise what they load in any case.
    """
    found = torch.onnx.export(
        program,
        dynamo=True,
        input_names=list(part.inputs),
        output_names=list(part.outputs),
        optimize=False,
        verbose=False,
    )
    assert found is not None
    proto = found.model_proto
    proto.doc_string = about
    (symbol,) = {value.type.tensor_type.shape.dim[0].dim_param for value in proto.graph.input}
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:  # the tracer calls it s22, say
                dimension.dim_param = re.sub(rf"\b{symbol}\b", "batch", dimension.dim_param)
    content: bytes = proto.SerializeToString()
    return content


def reload(path: Path, format: Format, part: Part) -> Runner:
    """Returns what runs the file, as someone else would who has it."""
    return from_pt2(path) if format == "pt2" else from_onnx(path, part)


def from_pt2(path: Path) -> Runner:
    """Reads an archive of PyTorch's."""
    with quiet():
        module = torch.export.load(io.BytesIO(path.read_bytes())).module()
    return lambda *inputs: list(module(*inputs))


def from_onnx(path: Path, part: Part) -> Runner:
    """Reads an ONNX model with onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

    def run(*inputs: Tensor) -> list[Tensor]:
        given = dict(zip(part.inputs, (tensor.numpy() for tensor in inputs), strict=True))
        return [torch.from_numpy(output) for output in session.run(list(part.outputs), given)]

    return run


def largest_difference(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference between two lists of tensors; infinite if one is not a number."""
    gaps = [(a - b).abs().max() for a, b in zip(one, other, strict=True)]
    return max(float(gap) if gap.isfinite() else float("inf") for gap in gaps)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what exporters say about themselves from people: it is not about their model."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
