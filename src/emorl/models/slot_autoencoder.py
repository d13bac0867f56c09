"""What Slot Attention and its ordered baseline share: encoder, decoder and loss of an autoencoder with slots."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from emorl.errors import check_numbers
from emorl.models.base import Model
from emorl.models.parts import DecoderConfig, EncoderConfig, check_block
from emorl.nn.lattice import draw_lattice
from emorl.probability import total
from emorl.types import Decomposition


@dataclass(frozen=True)
class SlotAutoencoderConfig:
    """The published CLEVR6 configuration by default."""

    image_size: int = 128  # side of the square images
    num_slots: int = 7  # K
    slot_size: int = 64  # D
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=lambda: DecoderConfig("deconv"))
    block: int = 1  # train on one pixel of each block x block, drawn anew (nn/lattice.py); needs "pixels"

    def __post_init__(self) -> None:
        check_numbers("model", self, image_size=5, num_slots=1, slot_size=1, block=1)
        check_block("model.block", self.block, self.decoder)


class SlotAutoencoder(Model):
    """An encoder of tokens, a decoder of slots, and the squared error between image and reconstruction."""

    terms = ("error",)
    config: SlotAutoencoderConfig

    def __init__(self, config: SlotAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = config.encoder.build()
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=config.slot_size)

    def reconstruct(self, x: Tensor, slots: Tensor) -> tuple[Tensor, Decomposition]:
        """Returns the squared error of each image, on the scale from -1 to 1, and the decoding.

        Training looks at a lattice of pixels, if configured.
        """
        size, block = self.config.image_size, self.config.block
        if block > 1 and torch.is_grad_enabled():
            lattice = draw_lattice(size, block, x.device)
            log_masks, colours = self.decoder.unbounded(slots, lattice.coordinates(like=slots))
            x, weights = lattice.of(x), lattice.weights
        else:
            log_masks, colours = self.decoder.unbounded(slots)
            weights = None
        squares = (2 * x - 1 - (log_masks.exp() * colours).sum(dim=1)).square()
        error = total(squares, weights) / (3 * size**2)
        return error, self.rendered((log_masks, to_unit(colours)), slots, None)

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it, with colours cut off at 0 and 1."""
        log_masks, colours = self.decoder.unbounded(slots, self.places(size, slots))
        return self.rendered((log_masks, to_unit(colours)), slots, size)


def to_unit(colours: Tensor) -> Tensor:
    """Colours on the scale from -1 to 1, not bounded by it, on the scale from 0 to 1."""
    return ((colours + 1) / 2).clamp(0, 1)
