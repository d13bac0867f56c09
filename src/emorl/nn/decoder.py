"""SpatialBroadcastDecoder: each slot paints its own picture and bids for pixels (line 25 of Algorithm 1).

The first layer of every layout is linear in broadcast(z) + position, so it is applied to each slot as a product with
its kernel summed over space, and to the few features that positions are made of instead of their projection: exact, and
a quarter to a third of the decoder's arithmetic saved.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.nn.position import Coordinates, PositionProjection
from emorl.probability import as_float32

# Numbers of a layer, 32 MiB: larger blocks glibc takes from the system anew each time, page by page, unless it is asked
# not to; and what a training step needs does not grow with its batch.
LAYER = 2**23


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


class SlotDecoder(nn.Module, ABC):
    """Renders each slot independently, with shared weights; only the softmax over masks couples them."""

    image_size: int
    in_parts: bool = True  # whether images and pixels are painted a few at a time, where that is better

    @abstractmethod
    def render(self, z: Tensor, coordinates: Tensor | None = None) -> Tensor:
        """The colours and the mask logit of each slot `z` (B, K, D), as numbers without bounds, (B, K, 4, H, W).

        `coordinates` (h, w, 2) between -1 and 1 are the places to render instead of all pixels, if the decoder can
        render at any place (`paints_anywhere`).
        """

    def images_at_once(self, z: Tensor) -> int | None:
        """How many images of `z` (B, K, D) to differentiate at a time, where that is better than all of them."""
        return None

    @property
    def painters(self) -> tuple[nn.Module, ...]:
        """The layers that paint, without those that tell places apart."""
        return (self,)

    def initialise(self) -> None:
        """What is left to set after the model's own initialisation: nothing, here."""

    def paint_at_once(self) -> None:
        """From now on works on whole batches: the graph that is exported must not depend on the number of images."""
        self.in_parts = False

    @property
    def paints_anywhere(self) -> bool:
        """Whether `render` takes coordinates."""
        return False

    def forward(self, z: Tensor, coordinates: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Renders `z` (B, K, D). Returns log π (B, K, 1, H, W), which sum to one over K, and y (B, K, 3, H, W)."""
        log_masks, components = self.unbounded(z, coordinates)
        return log_masks, components.sigmoid()

    def unbounded(self, z: Tensor, coordinates: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same with colours that may be any number."""
        components, logits = self.render(z, coordinates).split([3, 1], dim=2)
        return logits.log_softmax(dim=1), components


class SpatialBroadcastDecoder(SlotDecoder):
    """Convolutions over a slot that is repeated at every place, with the place added."""

    def __init__(
        self,
        layout: str,
        *,
        image_size: int,
        slot_size: int,
        channels: int | None = None,
        frequencies: int = 0,
    ) -> None:
        super().__init__()
        widths = {} if channels is None else {"channels": channels}
        built = LAYOUTS[layout](image_size, slot_size, **widths)
        self.image_size = image_size
        self.grid = built.grid
        self.position = (
            Coordinates(slot_size)
            if built.first.in_channels == slot_size + 2
            else PositionProjection(slot_size, frequencies=frequencies)
        )
        self.first = built.first
        self.rest = nn.Sequential(*built.rest)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third faster on CPUs

    @property
    def painters(self) -> tuple[nn.Module, ...]:
        """The convolutions, without the projection of positions."""
        return self.first, self.rest

    def images_at_once(self, z: Tensor) -> int | None:
        """On a CPU, as many as keep what a layer computes within `LAYER` numbers, and one at least."""
        of_a_slot = self.first.out_channels * max(self.grid, self.image_size) ** 2
        return max(1, LAYER // (z.shape[1] * of_a_slot)) if self.in_parts and z.device.type == "cpu" else None

    def render(self, z: Tensor, coordinates: Tensor | None = None) -> Tensor:
        """As SlotDecoder has it, at the pixels of an image only."""
        if coordinates is not None:
            raise ValueError("convolutions paint whole images; use the 'pixels' decoder for single places")
        output = self.rest(self.first_folded(z.flatten(0, 1)))
        cropped = output[..., : self.image_size, : self.image_size].unflatten(0, z.shape[:2])
        return as_float32(cropped)  # masks, colours and their likelihood

    def first_folded(self, z: Tensor) -> Tensor:
        """Returns first(broadcast(z) + position) for `z` (BK, D), or of both beside each other."""
        D = z.shape[-1]
        from_position: Tensor = Repeat.apply(self.first_of_position(), z.shape[0])  # type: ignore[no-untyped-call]
        if isinstance(self.first, nn.ConvTranspose2d):
            return from_position + torch.einsum("nd,dcij->ncij", z, self.response(self.first)[:D])
        from_z = torch.einsum("nd,cdij->ncij", z, summed_kernel(self.first)[:, :D])
        H, W = from_position.shape[-2:]
        return from_position + stretch(stretch(from_z, H, dim=-2), W, dim=-1)

    def first_of_position(self) -> Tensor:
        """Returns first(position), (1, C, H, W), by one convolution that projects the features of a place as well."""
        features, weights = self.position.factors(self.grid, self.grid)
        features, first = features.contiguous(memory_format=torch.channels_last), self.first
        if isinstance(first, nn.ConvTranspose2d):
            kernel = torch.einsum("dcij,df->fcij", first.weight, weights)
            where = {"stride": first.stride, "padding": first.padding, "output_padding": first.output_padding}
            return F.conv_transpose2d(features, kernel, first.bias, **where)  # type: ignore[arg-type]
        kernel = torch.einsum("cdij,df->cfij", first.weight, weights)
        return F.conv2d(features, kernel, first.bias, padding=first.padding)

    def response(self, first: nn.ConvTranspose2d) -> Tensor:
        """What the transposed convolution makes of a constant channel. Returns (D, C, h, w)."""
        D, C = first.weight.shape[:2]
        ones = first.weight.new_ones(1, D, self.grid, self.grid)
        sums = F.conv_transpose2d(ones, first.weight, stride=2, padding=2, output_padding=1, groups=D)
        return sums.reshape(D, C, *sums.shape[-2:])


class Repeat(torch.autograd.Function):
    """One picture (1, C, H, W) as `count`. Backward, adding them up as a matrix product is ten times as fast."""

    @staticmethod
    def forward(ctx: Any, picture: Tensor, count: int) -> Tensor:
        """Returns the picture `count` times, as a view."""
        return picture.expand(count, -1, -1, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Returns the sum of the pictures' gradients."""
        N, C, H, W = gradient.shape
        rows = gradient.permute(0, 2, 3, 1).reshape(N, -1)  # a view: channels come last
        return (gradient.new_ones(1, N) @ rows).view(1, H, W, C).permute(0, 3, 1, 2), None


def summed_kernel(conv: nn.Conv2d) -> Tensor:
    """What a convolution padded by p makes of a constant channel. Returns (C, D, 2p + 1, 2p + 1).

    The middle is the kernel summed over space. Around it are the values at the image's border, where zero padding
    leaves out rows and columns of the kernel: an image as large as the kernel shows all of them.
    """
    C, D, *size = conv.weight.shape
    ones = conv.weight.new_ones(1, 1, *size)
    sums = F.conv2d(ones, conv.weight.reshape(C * D, 1, *size), padding=conv.padding)
    return sums.reshape(C, D, *sums.shape[-2:])


def stretch(t: Tensor, size: int, *, dim: int) -> Tensor:
    """Repeats the middle of `t` along `dim` until it is `size` long. Without borders, broadcasting does it."""
    border = t.shape[dim] // 2
    if border == 0:
        return t
    before, middle, after = t.split([border, 1, border], dim=dim)
    shape = list(t.shape)
    shape[dim] = size - 2 * border
    return torch.cat([before, middle.expand(shape), after], dim=dim)
