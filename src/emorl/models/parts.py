"""What several models are built of and configured by: the encoder of tokens and the decoder of slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from emorl.errors import UserError, check_numbers
from emorl.nn.decoder import SlotDecoder, SpatialBroadcastDecoder
from emorl.nn.encoder import ImageEncoder, Layout
from emorl.nn.lattice import AllPixels, Pixels, draw_busy, draw_lattice
from emorl.nn.pixels import PixelDecoder


@dataclass(frozen=True)
class EncoderConfig:
    """How an image becomes tokens: nn/encoder.py."""

    layout: Layout = "plain"  # as published, or a "pyramid" with a sixteenth of the tokens
    channels: int = 64
    stride: int = 1  # of the first convolution of "plain"; 2 makes attention four times cheaper
    frequencies: int = 0  # of the sines and cosines that tell tokens where they are; 0: ramps, as published

    def __post_init__(self) -> None:
        check_numbers("model.encoder", self, channels=2, stride=1, frequencies=0)

    def build(self) -> ImageEncoder:
        """Returns a new encoder."""
        return ImageEncoder(
            self.channels, layout=self.layout, stride=self.stride, frequencies=self.frequencies
        )


@dataclass(frozen=True)
class DecoderConfig:
    """How a slot becomes a picture: nn/decoder_layouts.py, and nn/pixels.py for "pixels"."""

    layout: Literal[
        "broadcast", "small", "padded", "deconv", "normed", "lean", "leaner", "same-3x3", "same-5x5", "component",
        "pixels",
    ] = "broadcast"  # fmt: skip
    channels: int | None = None  # None: the layout's own width
    frequencies: int = 0  # of the sines and cosines that tell places apart; "pixels" has its own

    def __post_init__(self) -> None:
        check_numbers("model.decoder", self, frequencies=0)
        if self.channels is not None:
            check_numbers("model.decoder", self, channels=1)

    def build(self, *, image_size: int, slot_size: int) -> SlotDecoder:
        """Returns a new decoder of slots of this size, for images of this size."""
        if self.layout == "pixels":
            return PixelDecoder(image_size=image_size, slot_size=slot_size, channels=self.channels)
        return SpatialBroadcastDecoder(
            self.layout,
            image_size=image_size,
            slot_size=slot_size,
            channels=self.channels,
            frequencies=self.frequencies,
        )


def check_block(name: str, block: int, decoder: DecoderConfig) -> None:
    """Raises UserError for training on a lattice of pixels with a decoder that paints whole images."""
    if block > 1 and decoder.layout != "pixels":
        raise UserError(
            f"{name} = {block} needs --model.decoder.layout pixels: convolutions paint whole images."
        )


def pixels_to_look_at(x: Tensor, block: int, *, training: bool, busy: float = 0.0) -> Pixels:
    """Which pixels of images `x` (B, 3, H, W) a pass paints: as many as there are blocks in training, all otherwise.

    One of each block, or, where `busy` is above 0, that share of them where an image changes.
    """
    if not training or block == 1:
        return AllPixels()
    return draw_busy(x, block, busy) if busy else draw_lattice(x.shape[-1], block, x.device)
