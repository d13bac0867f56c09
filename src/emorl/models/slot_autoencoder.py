"""What Slot Attention and its ordered baseline share: encoder, decoder and loss of an autoencoder with slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from emorl.errors import check_numbers
from emorl.models.base import Model
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.encoder import ImageEncoder
from emorl.types import Decomposition


@dataclass(frozen=True)
class SlotAutoencoderConfig:
    """The published CLEVR6 configuration by default."""

    image_size: int = 128  # side of the square images
    num_slots: int = 7  # K
    slot_size: int = 64  # D
    encoder_channels: int = 64
    encoder_stride: int = 1  # of the first convolution; 2 makes attention four times cheaper
    decoder: Literal["padded", "deconv", "lean", "leaner"] = "deconv"  # layout, see nn/decoder.py
    decoder_channels: int | None = None  # None: the layout's own width
    position: Literal["ramps", "fourier"] = "ramps"  # the published one, or sines and cosines beside it
    frequencies: int = 8  # of "fourier", per axis

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=5, num_slots=1, slot_size=1, encoder_channels=1, encoder_stride=1, frequencies=1
        )  # fmt: skip
        if self.decoder_channels is not None:
            check_numbers("model", self, decoder_channels=1)


class SlotAutoencoder(Model):
    """An encoder of tokens, a decoder of slots, and the squared error between image and reconstruction."""

    config: SlotAutoencoderConfig

    def __init__(self, config: SlotAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        frequencies = config.frequencies if config.position == "fourier" else 0
        self.encoder = ImageEncoder(
            config.encoder_channels, stride=config.encoder_stride, frequencies=frequencies
        )
        self.decoder = SpatialBroadcastDecoder(
            config.decoder,
            image_size=config.image_size,
            slot_size=config.slot_size,
            channels=config.decoder_channels,
            frequencies=frequencies,
        )

    def reconstruct(self, x: Tensor, slots: Tensor) -> tuple[Tensor, Decomposition]:
        """Returns the squared error of each image, on the scale from -1 to 1, and the decoding."""
        log_masks, colours = self.decoder.unbounded(slots)
        error = (2 * x - 1 - (log_masks.exp() * colours).sum(dim=1)).square().mean(dim=(1, 2, 3))
        return error, painted(log_masks, colours, slots)

    def decode(self, slots: Tensor) -> Decomposition:
        return painted(*self.decoder.unbounded(slots), slots)


def painted(log_masks: Tensor, colours: Tensor, slots: Tensor) -> Decomposition:
    """Colours on the scale from -1 to 1, not bounded by it, become a decomposition."""
    return Decomposition(log_masks.exp(), ((colours + 1) / 2).clamp(0, 1), slots)
