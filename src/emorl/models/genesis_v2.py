"""GENESIS-V2 (Engelcke et al., NeurIPS 2021): pixels are clustered by colour codes around seeds drawn at random.

B images, K slots of size D. Each pixel has an embedding; K - 1 times a pixel that no slot has explained yet is drawn as
the seed of a cluster, and the last slot takes the rest. These masks pool features into posteriors; the masks of the
answer, and of the likelihood, are decoded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import UserError, check_numbers
from emorl.geco import KLGecoConfig
from emorl.models.base import Model
from emorl.models.parts import DecoderConfig, check_block, pixels_to_look_at
from emorl.nn.autoregressive import AutoregressivePrior, posterior_from
from emorl.nn.mlp import mlp
from emorl.nn.position import PositionProjection, coordinate_grid
from emorl.nn.stick_breaking import recursive_stick_breaking
from emorl.nn.unet import UNet, block
from emorl.probability import LIKELIHOODS, Gaussian, Noise, mask_kl
from emorl.types import Decomposition, Outcome

GROUPS = 8  # of channels, in every norm
Kernel = Literal["gaussian", "laplacian", "epanechnikov"]


@dataclass(frozen=True)
class GenesisV2Config:
    """The published configuration by default, for CLEVR6 at 96x96 pixels."""

    image_size: int = 96  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    slot_size: int = 64  # D
    channels: int = 64  # of the U-Net and of the heads on it, a multiple of 8
    embedding_size: int = 8  # of a pixel's colour code; the last two are where it is
    kernel: Kernel = "gaussian"  # how the share of a seed falls with the distance of codes
    decoder: DecoderConfig = field(default_factory=lambda: DecoderConfig("normed"))
    frequencies: int = 0  # of the sines that tell features their position, per axis; 0, as published: none
    hidden_size: int = 256  # of the prior's LSTM
    # One Gaussian around the sum, or one per slot, each channel or each pixel explained by one of them.
    likelihood: Literal["gaussian", "mixture", "pixel-mixture"] = "mixture"
    likelihood_sigma: float = 0.7  # scale of those Gaussians
    scale_bias: float = 0.0  # initial bias of the posterior's raw scale; -3.5 is a deviation of 0.05
    mask_weight: float = 0.0  # of the KL from clustered to decoded masks, which trains the clustering alone
    block: int = 1  # train on one pixel of each block x block, drawn anew (nn/lattice.py); needs "pixels"
    geco: KLGecoConfig = field(default_factory=KLGecoConfig)

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=16, num_slots=1, slot_size=1, channels=GROUPS, embedding_size=2, frequencies=0,
            hidden_size=1, mask_weight=0, block=1, positive=("likelihood_sigma",),
        )  # fmt: skip
        check_block("model.block", self.block, self.decoder)
        widths = {"channels": self.channels}
        if self.decoder.layout == "normed":
            widths["decoder.channels"] = self.decoder.channels or GROUPS
        for name, width in widths.items():
            if width % GROUPS:
                raise UserError(f"model.{name} must be a multiple of {GROUPS}, not {width}.")


class GenesisV2(Model):
    """Symmetric clusters without iterations, whose slots come in the order in which seeds are drawn."""

    Config: ClassVar[type] = GenesisV2Config
    terms = ("nll", "kl", "mask_kl", "kl_weight")
    config: GenesisV2Config

    def __init__(self, config: GenesisV2Config) -> None:
        super().__init__()
        self.config = config
        C, D = config.channels, config.slot_size
        self.unet = UNet(config.image_size, 3, channels=C, groups=GROUPS)
        self.segmentation_head = block(C, C, GROUPS)
        self.clustering = InstanceColouring(
            C, config.embedding_size, kernel=config.kernel, num_slots=config.num_slots
        )
        self.position = PositionProjection(C, frequencies=config.frequencies) if config.frequencies else None
        self.feature_head = nn.Sequential(block(C, C, GROUPS), nn.Conv2d(C, 2 * C, 1))
        self.posterior = nn.Sequential(nn.LayerNorm(2 * C), mlp(2 * C, 2 * C, 2 * D, activation=nn.ReLU))
        self.prior = AutoregressivePrior(D, hidden_size=config.hidden_size)
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=D)
        self.decoder.initialise()
        self.likelihood = LIKELIHOODS[config.likelihood]
        with torch.no_grad():
            self.posterior.get_parameter("1.2.bias")[D:] += config.scale_bias
        self.geco = config.geco.build(image_size=config.image_size, sigma=config.likelihood_sigma)

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        """Clusters pixels, infers a slot from each cluster, and decodes the slots."""
        features = self.unet(x)
        log_clusters = self.clustering(self.segmentation_head(features), K, noise)
        if self.position is not None:  # what is averaged over a cluster should tell where it is
            features = features + self.position(*features.shape[-2:])
        q = posterior_from(self.posterior(pool(self.feature_head(features), log_clusters.exp())))
        z = noise.answer(q)
        pixels = pixels_to_look_at(x, self.config.block, training=torch.is_grad_enabled())
        log_masks, components = self.decoder(z, pixels.coordinates(like=z))

        sigma = self.config.likelihood_sigma
        nll = self.likelihood(pixels.of(x), log_masks, components, sigma, pixels.weights)
        # The authors estimate the KL by the sample; given the slots before, it is known in closed form.
        kl = q.kl(self.prior(z))
        beta = self.geco.beta.clone()  # `adapt` changes it in place, and what was logged must not follow
        log_clusters = pixels.of(log_clusters)
        clusters_kl = mask_kl(log_clusters, log_masks.detach(), pixels.weights)
        loss = nll + beta * kl + self.config.mask_weight * clusters_kl
        terms = {"nll": nll, "kl": kl, "mask_kl": clusters_kl, "kl_weight": beta}
        clusters = log_clusters.exp().detach()
        answer = Decomposition(log_masks.exp(), components, q.mu, clusters).detach()
        # With `trace`, the clusters come before what the slots decode to.
        steps = (replace(answer, masks=clusters), answer) if trace else (answer,)
        return Outcome(loss.mean(), {name: term.detach() for name, term in terms.items()}, steps)

    @property
    def title(self) -> str:
        """As its authors write it."""
        return "GENESIS-V2"

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it."""
        self.check_slots(slots, size)
        return self.rendered(self.decoder(slots, self.places(size, slots)), slots, size)

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        """Moves the weight of the KL."""
        self.geco.update(terms["nll"])

    def is_fully_used(self, num_steps: int | None) -> bool:
        """With one slot nothing is clustered."""
        return self.config.num_slots > 1


def pool(features: Tensor, masks: Tensor) -> Tensor:
    """Means of `features` (B, C, H, W) under `masks` (B, K, 1, H, W), (B, K, C)."""
    weights = masks.flatten(2)
    return weights @ features.flatten(2).mT / (weights.sum(dim=-1, keepdim=True) + 1e-5)


class InstanceColouring(nn.Module):
    """Stick breaking whose shares are similarities to a seed, a pixel drawn from what is left of the image."""

    CLAMP = (0.01, 0.99)  # of shares: no cluster is ever complete or closed

    def __init__(self, channels: int, embedding_size: int, *, kernel: Kernel, num_slots: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.embed = nn.Conv2d(channels, embedding_size, 1)
        self.gate = nn.Parameter(torch.zeros(()))  # so codes start as positions
        # At the start the K clusters have room beside each other.
        start = {
            "gaussian": 1 / (num_slots * math.log(2)),
            "laplacian": 1 / (num_slots**0.5 * math.log(2)),
            "epanechnikov": 2 / num_slots,
        }[kernel]
        self.log_sigma = nn.Parameter(torch.tensor(math.log(start)))

    def codes(self, features: Tensor) -> Tensor:
        """The embeddings of pixels with `features` (B, C, H, W): semi-convolutional, their last two know positions."""
        codes: Tensor = self.gate * self.embed(features)
        E, H, W = codes.shape[1:]
        return codes + F.pad(coordinate_grid(H, W, like=codes), (0, 0, 0, 0, E - 2, 0))

    def forward(self, features: Tensor, num_slots: int, noise: Noise) -> Tensor:
        """Returns log masks (B, K, 1, H, W). The draw of seeds stays random where posteriors give their means."""
        codes = self.codes(features)
        # One number per pixel for all seeds; uniform, like the authors', from the one source of noise.
        order = torch.special.ndtr(noise.sample(Gaussian.standard(codes[:, :1])))

        def share(log_scope: Tensor) -> Tensor:
            seed = (order * log_scope.exp()).flatten(1).argmax(dim=1)
            code = codes.flatten(2).gather(2, seed[:, None, None].expand(-1, codes.shape[1], 1)).unsqueeze(-1)
            alpha = self.similarity((codes - code).square().sum(dim=1, keepdim=True))
            clamped = alpha + (alpha.clamp(*self.CLAMP) - alpha).detach()  # the gradient passes
            return clamped.logit()

        return recursive_stick_breaking(share, torch.zeros_like(order), num_slots)

    def similarity(self, squared_distance: Tensor) -> Tensor:
        """How much of a pixel a seed takes, 1 for itself, given the squared distance of their codes."""
        sigma = self.log_sigma.exp()
        match self.kernel:
            case "gaussian":
                return (-squared_distance / sigma).exp()
            case "laplacian":
                distance = (squared_distance + 1e-10).sqrt()  # at the seed itself, a root has no slope
                return (-distance / sigma).exp()
            case "epanechnikov":
                return (1 - squared_distance / sigma).relu()
