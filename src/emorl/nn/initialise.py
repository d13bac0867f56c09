"""How weights start: as in the authors' code, or scaled so that signals keep their size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from emorl.nn.decoder import SlotDecoder

Layer = nn.Linear | nn.Conv2d | nn.ConvTranspose2d


def tiny(*parts: nn.Module) -> None:
    """Xavier normal with gain 0.02, zero biases: what the authors use for nearly every layer."""
    for layer in layers_of(parts):
        nn.init.xavier_normal_(layer.weight, gain=0.02)


def scaled(*parts: nn.Module) -> None:
    """He for convolutions, Xavier for linear layers, zero biases: activations neither vanish nor explode."""
    for layer in layers_of(parts):
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight)
        else:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def keras(*parts: nn.Module) -> None:
    """TensorFlow's defaults: Glorot uniform, zero biases, orthogonal recurrent kernels of GRUs."""
    for layer in layers_of(parts):
        nn.init.xavier_uniform_(layer.weight)
    for part in parts:
        for cell in part.modules():
            if isinstance(cell, nn.GRUCell):
                for kernel in cell.weight_ih.chunk(3):
                    nn.init.xavier_uniform_(kernel)
                for kernel in cell.weight_hh.chunk(3):
                    nn.init.orthogonal_(kernel)
                nn.init.zeros_(cell.bias_ih)
                nn.init.zeros_(cell.bias_hh)


def sonnet(*parts: nn.Module) -> None:
    """DeepMind's defaults: `truncated_normal` weights, zero biases."""
    for layer in layers_of(parts):
        truncated_normal(layer.weight, inputs=layer.weight[0].numel())


def truncated_normal(t: Tensor, *, inputs: int) -> None:
    """Fills `t` from a normal of standard deviation 1/sqrt(inputs), cut off at two standard deviations."""
    std = inputs**-0.5
    nn.init.trunc_normal_(t, std=std, a=-2 * std, b=2 * std)


def without_checkerboard(decoder: SlotDecoder) -> None:
    """Makes the pixels that a PixelShuffle takes from one place equal; decoders without one are left as they are.

    Otherwise pictures start as a checkerboard, and masks learn to choose its fields instead of objects.
    """
    for layer, following in pairwise(decoder.modules()):
        if isinstance(following, nn.PixelShuffle) and isinstance(layer, nn.Conv2d):
            count = following.upscale_factor**2
            with torch.no_grad():
                layer.weight.copy_(layer.weight[::count].repeat_interleave(count, dim=0))


def layers_of(parts: Iterable[nn.Module]) -> Iterator[Layer]:
    """Yields every linear layer and convolution inside, its bias set to zero."""
    for part in parts:
        for layer in part.modules():
            if isinstance(layer, Layer):
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
                yield layer


def standard_normal(module: nn.Module) -> None:
    """Every weight and bias from N(0, 1): the authors' DualGRU. It saturates the gates at the start."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
