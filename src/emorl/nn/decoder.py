"""SpatialBroadcastDecoder: each slot paints its own picture and bids for pixels (line 25 of Algorithm 1).

The first layer of every layout is linear in broadcast(z) + position, so it is applied to each slot as a product with
its kernel summed over space, and to the few features that positions are made of instead of their projection: exact, and
a quarter to a third of the decoder's arithmetic saved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.nn.decoder_layouts import LAYOUTS
from emorl.nn.position import Coordinates, PositionProjection
from emorl.probability import as_float32

# Numbers of a layer, 32 MiB: larger blocks glibc takes from the system anew each time, page by page, unless it is asked
# not to; and what a training step needs does not grow with its batch.
LAYER = 2**23


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
