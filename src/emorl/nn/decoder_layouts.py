"""The layouts of SpatialBroadcastDecoder: which convolutions follow one another, on a grid of which size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from emorl.errors import UserError


@dataclass(frozen=True)
class Layout:
    """The layers of a decoder, and the side of the grid that a slot is broadcast to.

    Positions are projected and added to the slot, unless the first layer has two more inputs than a slot has numbers:
    then plain coordinates stand beside it.
    """

    grid: int
    first: nn.Conv2d | nn.ConvTranspose2d
    rest: list[nn.Module]


def broadcast(image_size: int, slot_size: int, channels: int = 64) -> Layout:
    """The paper's, as in IODINE: unpadded 3x3 convolutions that eat a margin of five pixels."""
    rest: list[nn.Module] = [nn.ELU(inplace=True)]
    for _ in range(3):
        rest += [nn.Conv2d(channels, channels, 3), nn.ELU(inplace=True)]
    return Layout(image_size + 10, nn.Conv2d(slot_size, channels, 3), [*rest, nn.Conv2d(channels, 4, 3)])


def small(image_size: int, slot_size: int, channels: int = 32) -> Layout:
    """The paper's for Tetrominoes: 5x5 convolutions, padded by one."""
    rest: list[nn.Module] = [nn.ReLU(inplace=True)]
    for _ in range(2):
        rest += [nn.Conv2d(channels, channels, 5, padding=1), nn.ReLU(inplace=True)]
    first = nn.Conv2d(slot_size, channels, 5, padding=1)
    return Layout(image_size + 6, first, [*rest, nn.Conv2d(channels, 4, 3, padding=1)])


def padded(image_size: int, slot_size: int, channels: int = 32) -> Layout:
    """Slot Attention's for sprites: 5x5 convolutions that keep the size."""
    rest: list[nn.Module] = [nn.ReLU(inplace=True)]
    for _ in range(2):
        rest += [nn.Conv2d(channels, channels, 5, padding=2), nn.ReLU(inplace=True)]
    first = nn.Conv2d(slot_size, channels, 5, padding=2)
    return Layout(image_size, first, [*rest, nn.Conv2d(channels, 4, 3, padding=1)])


def deconv(image_size: int, slot_size: int, channels: int = 64) -> Layout:
    """Slot Attention's, for the memory-lean E-MORL-X-S: four transposed convolutions that double the size."""
    if image_size % 16:
        raise UserError(
            f"The 'deconv' decoder needs an image size divisible by 16, not {image_size}; use 'lean'."
        )
    rest: list[nn.Module] = [nn.ReLU(inplace=True)]
    for _ in range(3):
        rest += [doubling(channels, channels), nn.ReLU(inplace=True)]
    rest += [nn.ConvTranspose2d(channels, channels, 5, padding=2), nn.ReLU(inplace=True)]
    last = nn.ConvTranspose2d(channels, 4, 3, padding=1)
    return Layout(image_size // 16, doubling(slot_size, channels), [*rest, last])


def normed(image_size: int, slot_size: int, channels: int = 64) -> Layout:
    """GENESIS-V2's: four transposed convolutions that double the size, with a norm over groups of channels."""
    rest: list[nn.Module] = [nn.GroupNorm(8, channels), nn.ReLU(inplace=True)]
    for _ in range(3):
        rest += [doubling(channels, channels), nn.GroupNorm(8, channels), nn.ReLU(inplace=True)]
    rest.append(nn.Conv2d(channels, 4, 1))
    return Layout(math.ceil(image_size / 16), doubling(slot_size + 2, channels), rest)


def doubling(size_in: int, size_out: int) -> nn.ConvTranspose2d:
    """A transposed convolution whose output has twice the size."""
    return nn.ConvTranspose2d(size_in, size_out, 5, stride=2, padding=2, output_padding=1)


def lean(image_size: int, slot_size: int, channels: int = 32, *, outputs: int = 4, factor: int = 2) -> Layout:
    """Ours, for CPUs: padded 3x3 convolutions at half resolution or less, each output holding four pixels or more."""
    rest: list[nn.Module] = [nn.ELU(inplace=True)]
    for _ in range(3):
        rest += [nn.Conv2d(channels, channels, 3, padding=1), nn.ELU(inplace=True)]
    rest += [nn.Conv2d(channels, factor**2 * outputs, 3, padding=1), nn.PixelShuffle(factor)]
    return Layout(math.ceil(image_size / factor), nn.Conv2d(slot_size, channels, 3, padding=1), rest)


def component(
    image_size: int,
    slot_size: int,
    channels: int = 32,
    *,
    activation: type[nn.Module] = nn.ReLU,
    outputs: int = 4,
) -> Layout:
    """MONet's: unpadded 3x3 convolutions over slot and coordinates that eat a margin of four pixels."""
    rest: list[nn.Module] = [activation()]
    for _ in range(3):
        rest += [nn.Conv2d(channels, channels, 3), activation()]
    rest.append(nn.Conv2d(channels, outputs, 1))
    return Layout(image_size + 8, nn.Conv2d(slot_size + 2, channels, 3), rest)


def same(image_size: int, slot_size: int, channels: int = 64, *, kernel: int = 3) -> Layout:
    """IODINE's: convolutions over slot and coordinates that keep the size."""

    def conv(size_in: int, size_out: int) -> nn.Conv2d:
        return nn.Conv2d(size_in, size_out, kernel, padding=kernel // 2)

    rest: list[nn.Module] = [nn.ELU(inplace=True)]
    for _ in range(3):
        rest += [conv(channels, channels), nn.ELU(inplace=True)]
    return Layout(image_size, conv(slot_size + 2, channels), [*rest, conv(channels, 4)])


LAYOUTS: dict[str, Callable[..., Layout]] = {
    "broadcast": broadcast,
    "small": small,
    "padded": padded,
    "deconv": deconv,
    "normed": normed,
    "lean": lean,
    "leaner": partial(lean, factor=4),
    "same-3x3": same,
    "same-5x5": partial(same, kernel=5),
    "component": component,
    # Colours alone, for models whose masks come from elsewhere; the first is GENESIS's.
    "appearance": partial(component, activation=nn.ELU, outputs=3),
    "lean-appearance": partial(lean, outputs=3),
}
