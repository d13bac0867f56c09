"""Writes a part of a model out as a graph of simple operations, for any number of images.

Refinement differentiates its loss at test time, and exporters do not follow that. So the pass is traced below automatic
differentiation, where a gradient is made of plain operations like everything else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from emorl.errors import UserError
from emorl.export.plain import PlainInterpolation, make_plain
from emorl.models.base import Model

ARITHMETIC = {getattr(torch.ops.aten, name).Tensor for name in ("add", "sub", "mul", "div")}
TRACED = 2  # images in the traced batch: with one, dimensions of size 1 would look like broadcasting


def traceable(model: Model) -> Model:
    """Returns a copy of a model, on the CPU, that computes the same in a way that does not ask how large a batch is."""
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    model.decoder.paint_at_once()
    make_plain(model)
    return model


def trace(
    compute: Callable[..., tuple[Tensor, ...]],
    shapes: Sequence[tuple[int, ...]],
    *,
    for_64_bits: bool = False,
) -> GraphModule:
    """Returns `compute` as a graph. Inputs have `shapes` after the first dimension, which may be any number.

    `for_64_bits` leaves out what onnxruntime has in 32 bits alone.
    """
    table: dict[Any, Callable[..., Any]] = {
        **core_aten_decompositions(),
        torch.ops.aten.convolution_backward.default: convolution_backward,
    }
    if for_64_bits:
        table[torch.ops.aten.convolution.default] = convolution_as_product
        table[torch.ops.aten.elu.default] = plain_elu
        table[torch.ops.aten.native_layer_norm.default] = plain_layer_norm
    shapes_known = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def fake(shape: tuple[int, ...]) -> Tensor:
        sizes = [DimDynamic.DYNAMIC] + [DimDynamic.STATIC] * len(shape)
        return shapes_known.from_tensor(
            torch.zeros(TRACED, *shape), symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)
        )

    inputs = [fake(shape) for shape in shapes]
    with shapes_known, PlainInterpolation():
        graph = make_fx(compute, decomposition_table=table, _allow_non_fake_inputs=True)(*inputs)
    graph.graph.eliminate_dead_code()  # losses and logged terms, which nobody asks for here
    if for_64_bits:
        keep_digits(graph)
    graph.recompile()
    return graph


def keep_digits(graph: GraphModule) -> None:
    """Turns numbers such as π into constants of 64 bits: PyTorch's exporter for ONNX rounds plain ones to 32."""
    for node in graph.graph.nodes:
        if node.target not in ARITHMETIC or node.meta["val"].dtype != torch.float64:
            continue
        for i, number in enumerate(node.args):
            if isinstance(number, float) and float(np.float32(number)) != number:
                name = f"{node.name}_number_{i}"
                graph.register_buffer(name, torch.tensor(number, dtype=torch.float64))
                with graph.graph.inserting_before(node):
                    node.update_arg(i, graph.graph.get_attr(name))


def convolution_backward(
    gradient: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor, None, None]:
    """The gradient of a convolution with respect to its inputs, which is a convolution too: ONNX has no other."""
    if list(wanted) != [True, False, False]:
        raise NotImplementedError("refinement needs the gradient of inputs alone")
    convolution = torch.ops.aten.convolution.default
    if transposed:
        return (
            convolution(gradient, weight, None, stride, padding, dilation, False, [0, 0], groups),
            None,
            None,
        )
    left = [  # pixels at the far border that the convolution's stride did not reach
        inputs.shape[2 + i]
        - (
            (gradient.shape[2 + i] - 1) * stride[i]
            - 2 * padding[i]
            + dilation[i] * (weight.shape[2 + i] - 1)
            + 1
        )
        for i in range(2)
    ]
    return convolution(gradient, weight, None, stride, padding, dilation, True, left, groups), None, None


def with_margin(images: Tensor, width: int, *, dim: int) -> Tensor:
    """Puts zeros before and after `images` (B, C, H, W) along a dimension; PyTorch's own padding fixes the batch."""
    shape = [*images.shape]
    shape[dim] = width
    zeros = images.new_zeros(shape)
    return torch.cat([zeros, images, zeros], dim=dim) if width else images


def plain_layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """F.layer_norm, mean and inverse deviation: that of ONNX takes its mean in 32 bits, whatever it is given."""
    dims = list(range(-len(shape), 0))
    mean = x.mean(dim=dims, keepdim=True)
    away = x - mean
    inverse = (away.square().mean(dim=dims, keepdim=True) + epsilon).rsqrt()
    normed = away * inverse
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias, mean, inverse


def plain_elu(x: Tensor, *default_scales: float) -> Tensor:
    """nn.ELU as it is by default: onnxruntime has it in 32 bits alone."""
    return torch.where(x > 0, x, x.exp() - 1)


def convolution_as_product(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution as one product, of the kernel with shifted copies of `inputs`: onnxruntime has no 64-bit ones."""
    if transposed or groups != 1 or tuple(dilation) != (1, 1):
        raise UserError(
            "ONNX Runtime has no convolutions that a decoder needs. Use pt2, or fewer refinement steps."
        )
    C_out, _, kernel_height, kernel_width = weight.shape
    padded = with_margin(with_margin(inputs, padding[0], dim=2), padding[1], dim=3)
    height, width = (
        (size - kernel) // step + 1
        for size, kernel, step in zip(padded.shape[2:], weight.shape[2:], stride, strict=True)
    )
    shifted = torch.cat(
        [
            padded[
                :,
                :,
                i : i + stride[0] * (height - 1) + 1 : stride[0],
                j : j + stride[1] * (width - 1) + 1 : stride[1],
            ]
            for i in range(kernel_height)
            for j in range(kernel_width)
        ],
        dim=1,
    )
    product = F.linear(shifted.flatten(2).mT, weight.permute(0, 2, 3, 1).reshape(C_out, -1)).mT
    result: Tensor = product.unflatten(-1, (height, width))
    return result if bias is None else result + bias[:, None, None]
