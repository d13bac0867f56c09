"""EfficientMORL (Emami et al., ICML 2021): Algorithm 1, its prior and its refinement network.

B images, K slots of size D, L stochastic layers, I refinement steps. λ = (μ, unconstrained scale) is (B, K, 2D);
`lam[l]` is λ^l and `z[l]` is z^l, index = superscript. "Deviation n" refers to docs/deviations.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import check_numbers
from emorl.geco import GecoConfig, Ramp
from emorl.models.base import Model, budget
from emorl.nn import initialise
from emorl.nn.attention import SetAttention
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.encoder import ImageEncoder
from emorl.nn.gradient import value_and_gradient
from emorl.nn.mlp import mlp
from emorl.nn.recurrent import DualGRU, SingleGRU
from emorl.probability import Gaussian, full, gaussian_nll, mixture_nll
from emorl.types import Decomposition, Outcome

Prior = Literal["bottom-up", "reversed", "reversed++"]
LossWeights = Literal["code", "paper", "increasing"]


@dataclass(frozen=True)
class EfficientMORLConfig:
    """The paper's CLEVR6 configuration by default."""

    image_size: int = 96  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    slot_size: int = 64  # D
    num_layers: int = 3  # L, stochastic layers of stage 1; 0 leaves refinement alone
    num_steps: int = 1  # I, refinement steps at test time, unless a call says otherwise
    prior: Prior = "reversed++"  # direction of the hierarchical prior, and what refinement is held to
    prior_draw: Literal["fresh", "ancestral"] = "fresh"  # which sample conditions the prior (deviation 17)
    likelihood: Literal["gaussian", "mixture"] = "mixture"  # one Gaussian around the sum, or one per slot
    likelihood_sigma: float = 0.1  # scale of those Gaussians
    encoder_channels: int = 64
    encoder_stride: int = 1  # of the first convolution; 2 makes attention four times cheaper
    decoder: Literal["broadcast", "small", "deconv", "lean", "leaner"] = "broadcast"  # see nn/decoder.py
    decoder_channels: int | None = None  # None: the layout's own width
    position: Literal["ramps", "fourier"] = "ramps"  # the paper's, or sines and cosines beside them
    frequencies: int = 8  # of "fourier", per axis
    gru: Literal["dual", "single"] = "dual"  # two GRUs for mean and scale, or the ablation's one
    attention_norm: bool = False  # layer norm on attention inputs, as Slot Attention has
    initialisation: Literal["official", "scaled"] = "official"  # the authors' tiny weights, or He and Xavier
    scale_bias: float = 0.0  # initial bias of the scale MLP; -6 starts posteriors at a deviation of 0.05
    loss_weights: LossWeights = "code"  # of the losses along refinement (deviation 1)
    kl_weight: float = 1.0  # β, at the end of the ramp if there is one
    kl_start: float | None = None  # β at the beginning; None: kl_weight throughout
    kl_ramp: tuple[int, int] = (0, 1000)  # steps between which β goes from kl_start to kl_weight
    nll_weight: float = 1.0  # of the reconstruction; GECO multiplies it
    geco: GecoConfig = field(default_factory=lambda: GecoConfig(target=-61000.0))

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=5, num_slots=1, slot_size=1, num_layers=0, num_steps=0, encoder_channels=1,
            encoder_stride=1, frequencies=1, kl_weight=0, nll_weight=0, positive=("likelihood_sigma",),
        )  # fmt: skip
        if self.decoder_channels is not None:
            check_numbers("model", self, decoder_channels=1)


class EfficientMORL(Model):
    """Two-stage inference of K symmetric object representations."""

    Config: ClassVar[type] = EfficientMORLConfig
    config: EfficientMORLConfig

    def __init__(self, config: EfficientMORLConfig) -> None:
        super().__init__()
        self.config = config
        D, C = config.slot_size, config.encoder_channels
        frequencies = config.frequencies if config.position == "fourier" else 0
        self.encoder = ImageEncoder(C, stride=config.encoder_stride, frequencies=frequencies)
        self.layer = StochasticLayer(C, D, gru=config.gru, norm_inputs=config.attention_norm)
        self.lam0 = nn.Parameter(torch.cat([torch.zeros(D), torch.ones(D)]))  # deviation 12
        self.prior = HierarchicalPrior(D, config.prior)
        self.decoder = SpatialBroadcastDecoder(
            config.decoder,
            image_size=config.image_size,
            slot_size=D,
            channels=config.decoder_channels,
            frequencies=frequencies,
        )
        self.refine = RefinementNetwork(D)
        self.likelihood = {"gaussian": gaussian_nll, "mixture": mixture_nll}[config.likelihood]
        self.geco = config.geco.build(elements=3 * config.image_size**2, sigma=config.likelihood_sigma)
        self.kl_ramp = None
        if config.kl_start is not None:
            self.kl_ramp = Ramp(config.kl_start, config.kl_weight, config.kl_ramp)
        self.initialise()

    def initialise(self) -> None:
        """Deviations 21 and 23. What is not listed (encoder position, refinement GRU) keeps PyTorch's defaults."""
        start = initialise.tiny if self.config.initialisation == "official" else initialise.scaled
        start(self.encoder.convolutions, self.encoder.token_mlp, self.layer)
        start(self.prior, self.decoder, self.refine)
        if self.config.initialisation == "official" and self.config.gru == "dual":
            initialise.standard_normal(self.layer.gru)
        nn.init.constant_(self.layer.mlp_s.get_parameter("2.bias"), self.config.scale_bias)

    def forward(
        self, x: Tensor, *, num_slots: int | None = None, num_steps: int | None = None, trace: bool = False
    ) -> Outcome:
        """Two-stage inference. Comments carry the line numbers of Algorithm 1."""
        self.check_images(x)
        K = budget(num_slots, self.config.num_slots, minimum=1, name="The number of slots")
        I = budget(num_steps, self.config.num_steps, minimum=0, name="The number of refinement steps")
        beta, weight = self.beta, self.reconstruction_weight
        training = torch.is_grad_enabled()

        def cut(t: Tensor) -> Tensor:
            # At test time each step starts a new graph, so memory does not grow with I.
            return t if training else t.detach().requires_grad_()

        # Stage 1: bottom-up inference.
        lam, z, alpha = self.bottom_up(x, K)  # lines 2-16
        steps = self.trace(lam, z, alpha) if trace else []

        with torch.enable_grad():  # line 22 differentiates, at test time too
            lam[-1] = cut(lam[-1])
            q = [Gaussian.from_params(lam_l) for lam_l in lam[1:]]
            q_i = Gaussian.from_params(lam[-1])
            z.append(q_i.rsample(always=not z))  # line 16, l = L
            conditions = z[1:] if self.config.prior_draw == "ancestral" else [q_l.rsample() for q_l in q]
            p, p_refine = self.prior(conditions, Gaussian.standard(z[-1]))
            kls = [q_l.kl(p_l) for q_l, p_l in zip(q, p, strict=True)]  # Eq. 4, layer by layer
            total, nll, step = self.reconstruct(x, z[-1], q_i, training, is_last=I == 0)
            losses = [beta * sum(kl.sum() for kl in kls) + weight * total]  # line 18
            steps.append(replace(step, attention=alpha[-1] if alpha else None))
            terms = {f"kl_{l}": kl.detach() for l, kl in enumerate(kls, start=1)}
            terms |= {"kl_hierarchical": sum(terms.values(), start=torch.zeros_like(nll)), "nll_stage1": nll}

            # Stage 2: iterative refinement.
            lam_i, h = lam[-1], None  # line 20
            for i in range(1, I + 1):
                (gradient,) = torch.autograd.grad(losses[-1], lam_i, retain_graph=training)  # line 22
                delta, h = self.refine(lam_i, gradient, h)
                lam_i, h = cut(lam_i + delta), cut(h)  # line 23
                q_i = Gaussian.from_params(lam_i)
                z_i = q_i.rsample()  # line 24
                total, nll, step = self.reconstruct(x, z_i, q_i, training, is_last=i == I)  # line 25
                losses.append(beta * q_i.kl(p_refine).sum() + weight * total)  # line 26
                steps.append(step)
                terms[f"update_{i}"] = delta.detach().flatten(1).norm(dim=1)

        weights = refinement_weights(I, self.config.loss_weights)
        loss = torch.stack([w * loss_i for w, loss_i in zip(weights, losses, strict=True)]).sum()  # Eq. 8
        terms |= {
            "nll": nll,
            "kl_refined": q_i.kl(p_refine).detach(),
            "nll_weight": weight,
            "kl_weight": beta,
        }
        terms["variance"] = x.flatten(2).var(dim=2, correction=0).mean(dim=1)  # AutoGeco's yardstick
        return Outcome(loss / len(x), terms, tuple(steps))  # line 28: the slots of the last step

    def bottom_up(self, x: Tensor, K: int) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Returns λ^0..λ^L, z^0..z^{L-1} and α^1..α^L. The caller draws z^L, where the graph of refinement starts."""
        lam = [self.lam0.expand(len(x), K, -1)]  # line 6
        z: list[Tensor] = []
        alpha: list[Tensor] = []
        if self.config.num_layers == 0:
            return lam, z, alpha
        keys, values = self.layer.attention.keys_and_values(self.encoder(x))  # lines 2-3
        side = self.encoder.grid(self.config.image_size)
        for l in range(1, self.config.num_layers + 1):
            z.append(Gaussian.from_params(lam[l - 1]).rsample(always=l == 1))  # lines 5 and 16
            lam_l, alpha_l = self.layer(keys, values, z[l - 1], lam[l - 1])  # lines 8-15
            lam.append(full(lam_l))  # refinement adds to it
            alpha.append(alpha_l.detach().unflatten(-1, (1, side, side)))
        return lam, z, alpha

    def reconstruct(
        self, x: Tensor, z: Tensor, q: Gaussian, training: bool, *, is_last: bool
    ) -> tuple[Tensor, Tensor, Decomposition]:
        """Decodes `z`, a sample of `q`. Returns its NLL summed over images, its NLL per image, and the decoding.

        Only the sum can be differentiated: with respect to the decoder too in training, to `z` alone at test time,
        and not at all where nothing follows.
        """
        f = partial(self.explain, x)
        if training:
            trainable = (parameter for parameter in self.decoder.parameters() if parameter.requires_grad)
            total, nll, masks, components = value_and_gradient(f, z, trainable)
        elif not is_last:
            total, nll, masks, components = value_and_gradient(f, z)
        else:
            with torch.no_grad():
                nll, masks, components = f(z)
            total = nll.sum()
        return total, nll, Decomposition(masks, components, slots=q.mu.detach())

    def explain(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Decodes `z`. Returns its NLL per image, masks and components."""
        log_masks, components = self.decoder(z)
        nll = self.likelihood(x, log_masks, components, self.config.likelihood_sigma)
        return nll, log_masks.exp(), components

    def compile_parts(self) -> None:
        self.encoder.compile(dynamic=False)
        self.explain = torch.compile(self.explain, dynamic=False)  # type: ignore[method-assign]

    def trace(self, lam: list[Tensor], z: list[Tensor], alpha: list[Tensor]) -> list[Decomposition]:
        """Decodes the beliefs of the layers below the last, z^1..z^{L-1}."""
        with torch.no_grad():
            decoded = [self.decode(z_l) for z_l in z[1:]]
        mus = [lam_l.chunk(2, dim=-1)[0].detach() for lam_l in lam[1:]]
        return [replace(d, slots=mu, attention=a) for d, mu, a in zip(decoded, mus, alpha, strict=False)]

    def decode(self, slots: Tensor) -> Decomposition:
        log_masks, components = self.decoder(slots)
        return Decomposition(log_masks.exp(), components, slots)

    @property
    def beta(self) -> Tensor:
        """What multiplies the KL."""
        return self.lam0.new_tensor(self.config.kl_weight) if self.kl_ramp is None else self.kl_ramp.value

    @property
    def reconstruction_weight(self) -> Tensor:
        """What multiplies the NLL, in training and in the gradient that refinement follows."""
        return self.config.nll_weight * (self.lam0.new_ones(()) if self.geco is None else self.geco.weight)

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        if self.kl_ramp is not None:
            self.kl_ramp.update()
        if self.geco is not None:
            self.geco.update(terms["nll"], terms["variance"])

    def is_fully_used(self, num_steps: int | None) -> bool:
        I = self.config.num_steps if num_steps is None else num_steps
        return I > 0 and self.config.num_layers > 1


def refinement_weights(I: int, variant: LossWeights) -> list[float]:
    """Weights of L^(L,0), ..., L^(L,I) in the training loss (Eq. 8): early steps count most. Deviation 1.

    "increasing" is the ablation: late steps count most, as in IODINE.
    """
    paper = [(I + 1 - i) / (I + 1) for i in range(I + 1)]
    match variant:
        case "paper":
            return paper
        case "code":
            return [weight + 2 / (I + 1) for weight in paper]
        case "increasing":
            return paper[::-1]


class StochasticLayer(nn.Module):
    """One step of assigning pixels to slots and updating their posteriors; its weights serve all L layers."""

    def __init__(
        self, token_size: int, slot_size: int, *, gru: Literal["dual", "single"], norm_inputs: bool
    ) -> None:
        super().__init__()
        D = slot_size
        self.attention = SetAttention(token_size, D, norm_inputs=norm_inputs)
        self.gru = DualGRU(D) if gru == "dual" else SingleGRU(D)
        self.norm_mu = nn.LayerNorm(D)
        self.mlp_mu = mlp(D, 2 * D, D, activation=nn.ReLU)
        self.norm_s = nn.LayerNorm(D)
        self.mlp_s = mlp(D, 2 * D, D, activation=nn.ReLU)

    def forward(self, keys: Tensor, values: Tensor, z: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
        """Returns λ^l (B, K, 2D) and α (B, K, N), given a sample `z` of layer l-1 and its λ."""
        theta, alpha = self.attention(keys, values, z)  # lines 8-11
        mu, s = self.gru(theta, lam).chunk(2, dim=-1)  # lines 12-13
        mu = mu + self.mlp_mu(self.norm_mu(mu))  # line 14
        s = s + self.mlp_s(self.norm_s(s))  # line 15; deviation 10: unconstrained, so it can shrink too
        return torch.cat([mu, s], dim=-1), alpha


class HierarchicalPrior(nn.Module):
    """p(z^{1:L}), each conditional layer an MLP applied to every slot alike."""

    def __init__(self, slot_size: int, variant: Prior, *, hidden_size: int = 128) -> None:
        super().__init__()
        self.variant = variant
        self.hidden = nn.Sequential(nn.Linear(slot_size, hidden_size), nn.ELU())
        self.mu = nn.Linear(hidden_size, slot_size)
        self.s = nn.Linear(hidden_size, slot_size)

    def given(self, z: Tensor) -> Gaussian:
        """The prior of the layer that depends on `z`."""
        hidden = self.hidden(z)
        return Gaussian.from_params(torch.cat([self.mu(hidden), self.s(hidden)], dim=-1))

    def forward(self, z: Sequence[Tensor], standard: Gaussian) -> tuple[list[Gaussian], Gaussian]:
        """Returns the priors of layers 1..L, given samples z^1..z^L, and the one that refinement is held to."""
        if not z:  # L = 0: refinement only
            return [], standard
        match self.variant:
            case "bottom-up":  # p(z^1), p(z^2|z^1), ..., p(z^L|z^{L-1})
                p = [standard, *map(self.given, z[:-1])]
                return p, p[-1]  # deviation 19
            case "reversed":  # p(z^1|z^2), ..., p(z^{L-1}|z^L), p(z^L)
                return [*map(self.given, z[1:]), standard], standard
            case "reversed++":  # the same chain, but refinement is held to p(z^1|z^2)
                p = [*map(self.given, z[1:]), standard]
                return p, p[0]


class RefinementNetwork(nn.Module):
    """f of line 23: reads a posterior and the gradient of its loss, and proposes an update."""

    def __init__(self, slot_size: int, *, hidden_size: int = 128) -> None:
        super().__init__()
        D = slot_size
        self.encode = mlp(4 * D, hidden_size, D, activation=nn.ELU)
        self.gru = nn.GRUCell(D, D)
        self.mu = nn.Linear(D, D)
        self.s = nn.Linear(D, D)

    def forward(self, lam: Tensor, gradient: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns δλ (B, K, 2D) and the new state (B, K, D); a state of None is zero."""
        halves = gradient.unflatten(-1, (2, -1))
        normed = F.layer_norm(halves, halves.shape[-1:]).flatten(
            -2
        )  # deviation 13: mean and scale apart, not affine
        encoded = self.encode(torch.cat([lam, normed], dim=-1))
        h = self.gru(encoded.flatten(0, 1), None if h is None else h.flatten(0, 1)).unflatten(
            0, lam.shape[:2]
        )
        return full(torch.cat([self.mu(h), self.s(h)], dim=-1)), h  # deviation 11
