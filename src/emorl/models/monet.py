"""MONet (Burgess et al., 2019): attention takes an image apart slot by slot, and one VAE explains every part.

B images, K slots of size D. The attention network's masks m enter the likelihood and are the answer's masks, which the
published scores are computed from; the VAE also predicts them (m~), and a KL pulls the two together. Slots are rendered
with m~, because they do not hold what the attention network saw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import check_numbers, check_range
from emorl.models.base import Model
from emorl.models.parts import DecoderConfig, check_block, pixels_to_look_at
from emorl.nn import initialise
from emorl.nn.component import ComponentEncoder
from emorl.nn.stick_breaking import recursive_stick_breaking
from emorl.nn.unet import UNet
from emorl.probability import LIKELIHOODS, Gaussian, Noise, mask_kl
from emorl.types import Decomposition, Outcome

LEAST = 1e-20  # of an enlarged mask: its logarithm stays finite


@dataclass(frozen=True)
class MONetConfig:
    """The configuration for CLEVR6 by default."""

    image_size: int = 96  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    slot_size: int = 16  # D
    attention_channels: int = 32  # of the U-Net; twice as many at small sizes
    attention_stride: int = 1  # it looks at the image this many times smaller, and its masks are enlarged
    encoder_channels: int = 32  # of the first two convolutions; twice as many in the last two
    decoder: DecoderConfig = field(default_factory=lambda: DecoderConfig("component"))
    likelihood: Literal["mixture", "pixel-mixture"] = "mixture"  # of channels, as published, or of pixels
    background_sigma: float = 0.06  # scale of the first slot's likelihood: it explains what is easy
    foreground_sigma: float = 0.1  # of the other slots'
    initialisation: Literal["default", "scaled"] = "default"  # PyTorch's, or He and Xavier for the VAE
    scale_bias: float = 0.0  # initial bias of the posterior's log scale; -3 starts it at a deviation of 0.05
    kl_weight: float = 0.5  # β
    mask_weight: float = 0.5  # γ, of the KL between the masks of attention and those of the VAE
    block: int = 1  # train on one pixel of each block x block, drawn anew (nn/lattice.py); needs "pixels"

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=16, num_slots=1, slot_size=1, attention_channels=1, attention_stride=1,
            encoder_channels=1, kl_weight=0, mask_weight=0, block=1,
            positive=("background_sigma", "foreground_sigma"),
        )  # fmt: skip
        check_range("model.attention_stride", self.attention_stride, 1, self.image_size // 16)
        check_block("model.block", self.block, self.decoder)


class MONet(Model):
    """Ordered slots without iterations: a slot's mask depends on what the slots before it have left."""

    Config: ClassVar[type] = MONetConfig
    terms = ("nll", "kl", "mask_kl")
    config: MONetConfig

    def __init__(self, config: MONetConfig) -> None:
        super().__init__()
        self.config = config
        side = math.ceil(config.image_size / config.attention_stride)
        self.unet = UNet(side, 4, channels=config.attention_channels)
        self.share = nn.Conv2d(config.attention_channels, 1, 1)
        self.encoder = ComponentEncoder(
            config.image_size, 2 * config.slot_size, channels=config.encoder_channels
        )
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=config.slot_size)
        self.likelihood = LIKELIHOODS[config.likelihood]
        if config.initialisation == "scaled":
            initialise.scaled(self.encoder, self.decoder)
            initialise.without_checkerboard(self.decoder)
        self.decoder.initialise()
        with torch.no_grad():
            self.encoder.mlp.get_parameter("2.bias")[config.slot_size :] += config.scale_bias

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        """Attention chooses the masks, and the VAE encodes and decodes what each of them shows."""
        log_masks = self.attend(x, K)
        mu, log_sigma = self.encoder(x, log_masks).chunk(2, dim=-1)
        q = Gaussian(mu, log_sigma.exp())
        pixels = pixels_to_look_at(x, self.config.block, training=torch.is_grad_enabled())
        log_masks = pixels.of(log_masks)
        log_decoded, components = self.decoder(noise.answer(q), pixels.coordinates(like=mu))
        terms = {
            "nll": self.likelihood(pixels.of(x), log_masks, components, self.sigmas(K), pixels.weights),
            "kl": q.kl(Gaussian.standard(mu)),
            "mask_kl": mask_kl(log_masks, log_decoded, pixels.weights),
        }
        loss = terms["nll"] + self.config.kl_weight * terms["kl"] + self.config.mask_weight * terms["mask_kl"]
        answer = Decomposition(log_masks.exp(), components, mu).detach()
        return Outcome(loss.mean(), {name: term.detach() for name, term in terms.items()}, (answer,))

    def attend(self, x: Tensor, num_slots: int) -> Tensor:
        """Returns log m (B, K, 1, H, W): the network looks once per slot, at what is left of the image."""
        size, stride = x.shape[-2:], self.config.attention_stride
        if stride > 1:
            x = F.avg_pool2d(x, stride, ceil_mode=True)

        def share(log_scope: Tensor) -> Tensor:
            logits: Tensor = self.share(self.unet(torch.cat([x, log_scope], dim=1)))
            return logits

        log_masks = recursive_stick_breaking(share, torch.zeros_like(x[:, :1]), num_slots)
        if stride == 1:
            return log_masks
        # Interpolated masks still sum to one.
        masks = F.interpolate(log_masks.exp().squeeze(2), size=size, mode="bilinear")
        return masks.clamp_min(LEAST).log().unsqueeze(2)

    def sigmas(self, num_slots: int) -> Tensor:
        """Scale of each slot's likelihood, (K, 1, 1, 1)."""
        scales = [self.config.background_sigma] + [self.config.foreground_sigma] * (num_slots - 1)
        return self.share.weight.new_tensor(scales)[:, None, None, None]

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it, with the masks that the VAE predicts."""
        self.check_slots(slots, size)
        return self.rendered(self.decoder(slots, self.places(size, slots)), slots, size)

    def enlarged(self, parts: Decomposition, size: int) -> Decomposition:
        """The masks are attention's at every size, as in the answer itself; only components are painted anew."""
        return replace(super().enlarged(parts, size), masks=parts.resized(size).masks)

    def is_fully_used(self, num_steps: int | None) -> bool:
        """With one slot attention has nothing to choose."""
        return self.config.num_slots > 1
