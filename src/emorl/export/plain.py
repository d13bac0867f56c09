"""Layers in plain operations, in place of those of PyTorch's that fix the size of the batch when they are traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from emorl.nn.recurrent import gru_step


def make_plain(model: nn.Module) -> None:
    """Replaces layers all over a model; weights and results stay."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            for kind, plain in PLAIN.items():
                if isinstance(child, kind):
                    setattr(module, name, plain(child))


class PlainGRU(nn.Module):
    """nn.GRUCell."""

    def __init__(self, cell: nn.GRUCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> Tensor:
        """Returns the new state (N, D), given `inputs` (N, C) and a state; None is zero."""
        cell = self.cell
        if state is None:
            state = inputs.new_zeros(inputs.shape[0], cell.hidden_size)
        from_input = F.linear(inputs, cell.weight_ih, cell.bias_ih)
        return gru_step(from_input, F.linear(state, cell.weight_hh, cell.bias_hh), state)


def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Output and memory (N, D) after one step, from the four pre-activations (N, 4D) and the memory before it."""
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * c.tanh(), c


class PlainLSTMCell(nn.Module):
    """nn.LSTMCell."""

    def __init__(self, cell: nn.LSTMCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Returns output and memory (N, D) each, given `inputs` (N, C) and the last ones; None is zero."""
        cell = self.cell
        zero = inputs.new_zeros(inputs.shape[0], cell.hidden_size)
        h, c = (zero, zero) if state is None else state
        gates = F.linear(inputs, cell.weight_ih, cell.bias_ih) + F.linear(h, cell.weight_hh, cell.bias_hh)
        return lstm_step(gates, c)


class PlainLSTM(nn.Module):
    """nn.LSTM with one layer and batch_first."""

    def __init__(self, layer: nn.LSTM) -> None:
        super().__init__()
        if layer.num_layers != 1 or layer.bidirectional or not layer.batch_first:
            raise NotImplementedError("LSTMs with several layers or directions, or with time first")
        self.layer = layer

    def forward(self, inputs: Tensor) -> tuple[Tensor, None]:
        """Returns the outputs (N, T, D) of `inputs` (N, T, C); nobody asks for the state after them."""
        weight_ih, weight_hh, bias_ih, bias_hh = self.layer.all_weights[0]
        h = c = inputs.new_zeros(inputs.shape[0], self.layer.hidden_size)
        outputs = []
        for one in inputs.unbind(dim=1):
            gates = F.linear(one, weight_ih, bias_ih)
            h, c = lstm_step(gates + F.linear(h, weight_hh, bias_hh), c)
            outputs.append(h)
        return torch.stack(outputs, dim=1), None


class PlainNorm(nn.Module):
    """nn.GroupNorm, or nn.InstanceNorm2d: a group for each channel."""

    def __init__(self, norm: nn.GroupNorm | nn.InstanceNorm2d) -> None:
        super().__init__()
        self.norm = norm
        self.groups = norm.num_groups if isinstance(norm, nn.GroupNorm) else norm.num_features

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x` (N, C, H, W) with mean 0 and variance 1 in each group, then scaled and shifted."""
        groups = x.reshape(x.shape[0], self.groups, -1)
        variance, mean = torch.var_mean(groups, dim=-1, correction=0, keepdim=True)
        normed = ((groups - mean) * (variance + self.norm.eps).rsqrt()).reshape(x.shape)
        if self.norm.weight is None:
            return normed
        return normed * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]


class PlainInterpolation(TorchFunctionMode):
    """While it is entered, F.interpolate resizes (B, C, H, W) with plain products or indices."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called for every function of PyTorch's."""
        kwargs = kwargs or {}
        return resize(*args, **kwargs) if func is F.interpolate else func(*args, **kwargs)


def resize(
    images: Tensor, *, size: Sequence[int], mode: str = "nearest", antialias: bool = False, **rest: Any
) -> Tensor:
    """F.interpolate of `images` (B, C, H, W), either nearest or bilinear with antialias."""
    olds, (height, width) = images.shape[-2:], size
    if mode == "nearest":
        rows, columns = (torch.arange(new) * old // new for new, old in zip(size, olds, strict=True))
        return images.index_select(-2, rows).index_select(-1, columns)
    if mode != "bilinear" or not antialias:
        raise NotImplementedError(f"interpolation {mode!r}")
    return triangles(olds[0], height, images) @ images @ triangles(olds[1], width, images).mT


def triangles(old: int, new: int, like: Tensor) -> Tensor:
    """How much each of `old` pixels in a row counts for each of `new` ones, (new, old): less with the distance."""
    scale = old / new
    centres = (torch.arange(new, dtype=like.dtype) + 0.5) * scale
    distances = (torch.arange(old, dtype=like.dtype) + 0.5 - centres[:, None]).abs()
    weights = (1 - distances / max(scale, 1.0)).clamp_min(0)
    return weights / weights.sum(dim=1, keepdim=True)


PLAIN: dict[Any, Callable[[Any], nn.Module]] = {
    nn.GRUCell: PlainGRU,
    nn.LSTMCell: PlainLSTMCell,
    nn.LSTM: PlainLSTM,
    nn.GroupNorm: PlainNorm,
    nn.InstanceNorm2d: PlainNorm,
}
