"""EfficientMORL (Emami et al., ICML 2021): Algorithm 1, its prior and its refinement network.

B images, K slots of size D, L stochastic layers, I refinement steps. λ = (μ, unconstrained scale) is (B, K, 2D);
`lam[l]` is λ^l and `z[l]` is z^l, index = superscript. "Difference n" refers to docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from emorl.models.base import Model
from emorl.models.efficient_morl_config import PRICES, EfficientMORLConfig, LossWeights
from emorl.models.parts import pixels_to_look_at
from emorl.models.prices import colour_spread, excess_area, outside_largest, slots_in_use
from emorl.nn import initialise
from emorl.nn.gradient import value_and_gradient
from emorl.nn.lattice import Pixels
from emorl.nn.prior import HierarchicalPrior
from emorl.nn.refinement import RefinementNetwork
from emorl.nn.stochastic import Seen, StochasticLayer
from emorl.probability import LIKELIHOODS, Gaussian, Noise, as_float32
from emorl.schedules import Schedule
from emorl.types import Decomposition, Outcome

Beliefs = tuple[list[Tensor], list[Tensor], list[Tensor]]  # λ, z and α of the layers of stage 1


class EfficientMORL(Model):
    """Two-stage inference of K symmetric object representations."""

    Config: ClassVar[type] = EfficientMORLConfig
    least_steps: ClassVar[int | None] = 0
    terms = ("nll", "kl", "kl_hierarchical", "nll_stage1", "nll_weight", "variance")
    config: EfficientMORLConfig
    kl_weight: Tensor
    presence: Tensor
    area_price: Tensor
    colour_price: Tensor
    foreground_price: Tensor
    sigma: Tensor

    def __init__(self, config: EfficientMORLConfig) -> None:
        super().__init__()
        self.config = config
        inference, objective, D = config.inference, config.objective, config.slot_size
        self.encoder = config.encoder.build()
        self.layer = StochasticLayer(
            config.encoder.channels,
            D,
            gru=inference.gru,
            norm_inputs=inference.attention_norm,
            own_frame=inference.own_frame,
            grid=self.encoder.grid(config.image_size),
        )
        self.lam0 = nn.Parameter(torch.cat([torch.zeros(D), torch.ones(D)]))  # Difference 12
        self.prior = HierarchicalPrior(D, objective.prior)
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=D)
        self.refine = RefinementNetwork(D)
        self.likelihood = LIKELIHOODS[objective.likelihood]
        self.geco = objective.geco.build(elements=3 * config.image_size**2, sigma=objective.sigma.final)
        self.register_schedules()
        self.initialise()

    @property
    def schedules(self) -> dict[str, Schedule]:
        """β, σ and the prices of slots."""
        objective = self.config.objective
        found = {"kl_weight": objective.kl_weight, "presence": objective.presence, "sigma": objective.sigma}
        for name in PRICES:
            if getattr(objective, name).largest > 0:  # older weights do not hold their values
                found[name] = getattr(objective, name)
        return found

    def initialise(self) -> None:
        """Differences 21 and 23. What is not listed (encoder position, refinement GRU) keeps PyTorch's defaults."""
        inference = self.config.inference
        is_official = inference.initialisation == "official"
        start = initialise.tiny if is_official else initialise.scaled
        start(self.encoder.convolutions, self.encoder.token_mlp, self.layer)
        start(self.prior, self.decoder, self.refine)
        if is_official and inference.gru == "dual":
            initialise.standard_normal(self.layer.gru)
        self.decoder.initialise()
        with torch.no_grad():
            self.layer.attention.q.weight.mul_(inference.sharpness)
        nn.init.constant_(self.layer.mlp_s.get_parameter("2.bias"), inference.scale_bias)

    def compute(self, x: Tensor, K: int, I: int, noise: Noise, *, trace: bool) -> Outcome:
        """Two-stage inference. Comments carry the line numbers of Algorithm 1."""
        beta = self.kl_weight
        cut = keep if torch.is_grad_enabled() else new_leaf  # at test time memory does not grow with I
        reconstruct = partial(self.reconstruct, x, is_training=torch.is_grad_enabled())

        # Stage 1: bottom-up inference.
        lam, z, alpha = self.bottom_up(x, K, noise)  # lines 2-16
        steps = self.trace(lam, z, alpha) if trace else []
        # With L = 0 nothing has been attended to, and the first draw is what tells the slots apart.
        attention, is_answer = (alpha[-1], I == 0) if alpha else (None, False)
        with torch.enable_grad():  # line 22 differentiates, at test time too
            lam_i = lam[-1] = cut(lam[-1])
            q = [Gaussian.from_params(lam_l) for lam_l in lam[1:]]
            q_i = Gaussian.from_params(lam_i)
            z.append(noise.answer(q_i) if is_answer else noise.sample(q_i))  # line 16, l = L
            conditions = z[1:] if self.config.objective.prior_draw == "ancestral" else [*map(noise.sample, q)]
            p, p_refine = self.prior(conditions, Gaussian.standard(z[-1]))
            kls = [q_l.kl(p_l) for q_l, p_l in zip(q, p, strict=True)]  # Eq. 4
            total, nll, masks, components = reconstruct(z[-1], is_last=I == 0)
            losses, nlls = [beta * sum(kl.sum() for kl in kls) + total], [nll]  # line 18
            steps.append(Decomposition(masks, components, q_i.mu.detach(), attention))

            # Stage 2: iterative refinement.
            h, updates = None, []  # line 20
            for i in range(1, I + 1):
                (gradient,) = torch.autograd.grad(losses[-1], lam_i, retain_graph=cut is keep)  # line 22
                delta, h = self.refine(lam_i, gradient, h)
                lam_i, h = cut(lam_i + delta), cut(h)  # line 23
                q_i = Gaussian.from_params(lam_i)
                z_i = noise.answer(q_i) if i == I else noise.sample(q_i)  # line 24
                total, nll, masks, components = reconstruct(z_i, is_last=i == I)  # line 25
                losses.append(beta * q_i.kl(p_refine).sum() + total)  # line 26
                nlls.append(nll)
                updates.append(delta)
                steps.append(Decomposition(masks, components, q_i.mu.detach()))

        weights = refinement_weights(I, self.config.objective.loss_weights)
        loss = torch.stack([w * loss_i for w, loss_i in zip(weights, losses, strict=True)]).sum()  # Eq. 8
        terms = self.terms_of(x, nlls=nlls, kls=kls, kl=q_i.kl(p_refine), updates=updates)
        return Outcome(loss / x.shape[0], terms, tuple(steps))  # line 28: the slots of the last step

    def bottom_up(self, x: Tensor, K: int, noise: Noise) -> Beliefs:
        """Stage 1. Outside training it may be done several times, and each image has the one that explains it best."""
        features = self.encoder.features(x)
        seen = self.layer.look(features, self.encoder.tokens(features))  # lines 2-3
        starts = 1 if torch.is_grad_enabled() else self.config.inference.starts
        begun = [self.one_start(seen, K, noise) for _ in range(starts)]
        return begun[0] if starts == 1 else self.best_start(x, begun)

    def one_start(self, seen: Seen, K: int, noise: Noise) -> Beliefs:
        """Returns λ^0..λ^L, z^0..z^{L-1} and α^1..α^L. The caller draws z^L, where the graph of refinement starts."""
        lam = [self.lam0.expand(seen.keys.shape[0], K, -1)]  # line 6
        z: list[Tensor] = []
        alpha: list[Tensor] = []
        for l in range(1, self.config.inference.num_layers + 1):
            z.append(noise.sample(Gaussian.from_params(lam[l - 1])))  # lines 5 and 16
            lam_l, alpha_l = self.layer(seen, z[l - 1], lam[l - 1])  # lines 8-15
            lam.append(as_float32(lam_l))  # refinement adds to it
            alpha.append(alpha_l.detach().unflatten(-1, (1, *seen.grid)))
        return lam, z, alpha

    def best_start(self, x: Tensor, begun: Sequence[Beliefs]) -> Beliefs:
        """Of several stages 1, what explains each image best at the mean of its last posterior."""
        nlls = [
            self.reconstruct(x, Gaussian.from_params(lam[-1]).mu, is_training=False, is_last=True)[1]
            for lam, _, _ in begun
        ]
        which, images = torch.stack(nlls).argmin(dim=0), torch.arange(x.shape[0], device=x.device)
        lam, z, alpha = (
            [torch.stack(layer)[which, images] for layer in zip(*tensors, strict=True)]
            for tensors in zip(*begun, strict=True)
        )
        return lam, z, alpha

    def reconstruct(self, x: Tensor, z: Tensor, *, is_training: bool, is_last: bool) -> tuple[Tensor, ...]:
        """Decodes `z`. Returns what it costs, summed over images, its NLL per image, masks and components.

        Only the sum can be differentiated: with respect to the decoder too in training, to `z` alone at test time,
        and not at all where nothing follows. Training looks at a lattice of pixels, if configured.
        """
        objective = self.config.objective
        pixels = pixels_to_look_at(x, objective.block, training=is_training, busy=objective.busy)
        parameters = self.decoder.parameters() if is_training else ()

        def f(z: Tensor, images: slice) -> tuple[Tensor, ...]:
            return self.explain(x[images], pixels.part(images), z)

        total, _, *rest = value_and_gradient(
            f,
            z,
            parameters,
            needed=is_training or not is_last,
            images_at_once=self.decoder.images_at_once(z),
        )
        return total, *rest

    def explain(self, x: Tensor, pixels: Pixels, z: Tensor) -> tuple[Tensor, ...]:
        """Decodes `z`. Returns cost and NLL per image, masks and components, at these `pixels`.

        What is decoded costs its weighted NLL, and its used slots. That slots are used at all is the prior's matter, as
        the KL is, so β weighs it.
        """
        log_masks, components = self.decoder(z, pixels.coordinates(like=z))
        nll = self.likelihood(pixels.of(x), log_masks, components, float(self.sigma), pixels.weights)
        masks, cost = log_masks.exp(), self.reconstruction_weight * nll
        objective = self.config.objective
        if objective.presence.largest > 0:
            used = slots_in_use(masks, pixels.weights)
            cost = cost + self.kl_weight * self.presence * used
        if objective.area_price.largest > 0:
            cost = cost + self.area_price * excess_area(masks, pixels.weights, free=objective.free_area)
        if objective.colour_price.largest > 0:
            cost = cost + self.colour_price * colour_spread(masks, components, pixels.weights)
        if objective.foreground_price.largest > 0:
            share = outside_largest(masks, pixels.weights)
            cost = cost + self.foreground_price * x.shape[-1] ** 2 * share
        return cost, nll, masks, components

    def terms_of(
        self,
        x: Tensor,
        *,
        nlls: Sequence[Tensor],
        kls: Sequence[Tensor],
        kl: Tensor,
        updates: Sequence[Tensor],
    ) -> dict[str, Tensor]:
        """What a pass logs, per image: NLL before and after refinement, KL by layer, sizes of the refinements."""
        terms = {f"kl_{l}": one.detach() for l, one in enumerate(kls, start=1)}
        terms["kl_hierarchical"] = sum(terms.values(), start=torch.zeros_like(nlls[0]))
        terms |= {"nll_stage1": nlls[0], "nll": nlls[-1], "kl": kl.detach()}
        terms |= {f"update_{i}": d.detach().flatten(1).norm(dim=1) for i, d in enumerate(updates, start=1)}
        terms["nll_weight"] = self.reconstruction_weight
        # What AutoGeco's target is a share of.
        terms["variance"] = x.flatten(2).var(dim=2, correction=0).mean(dim=1)
        return terms

    def compile_parts(self) -> None:
        """The encoder, and decoding together with its likelihood."""
        self.encoder.compile(dynamic=False)
        self.explain = torch.compile(self.explain, dynamic=False)  # type: ignore[method-assign]

    def trace(self, lam: list[Tensor], z: list[Tensor], alpha: list[Tensor]) -> list[Decomposition]:
        """Decodes the beliefs of the layers below the last, z^1..z^{L-1}."""
        with torch.no_grad():
            decoded = [self.decode(z_l) for z_l in z[1:]]
        mus = [lam_l.chunk(2, dim=-1)[0].detach() for lam_l in lam[1:]]
        return [replace(d, slots=mu, attention=a) for d, mu, a in zip(decoded, mus, alpha, strict=False)]

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it; `slots` are values of z."""
        self.check_slots(slots, size)
        return self.rendered(self.decoder(slots, self.places(size, slots)), slots, size)

    @property
    def reconstruction_weight(self) -> Tensor:
        """What multiplies the NLL, in training and in the gradient that refinement follows."""
        weight = self.lam0.new_ones(()) if self.geco is None else self.geco.weight
        return self.config.objective.nll_weight * weight

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        """Moves GECO's weight."""
        if self.geco is not None:
            self.geco.update(terms["nll"], terms["variance"])

    def is_fully_used(self, num_steps: int | None) -> bool:
        """Refinement needs a step, and the prior a second layer."""
        I = self.config.num_steps if num_steps is None else num_steps
        return I > 0 and self.config.inference.num_layers > 1


def keep(t: Tensor) -> Tensor:
    """Returns `t` as it is: in training one graph goes through all steps."""
    return t


def new_leaf(t: Tensor) -> Tensor:
    """Returns `t` without its history: at test time each step starts a new graph."""
    return t.detach().requires_grad_()


def refinement_weights(I: int, variant: LossWeights) -> list[float]:
    """Weights of L^(L,0), ..., L^(L,I) in the training loss (Eq. 8): early steps count most. Difference 1.

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
