"""Reference mode: EfficientMORL with the same weights and the same results, computed the way the authors' code does.

Plain autograd that keeps the graph of every refinement step, and of its gradient too (`create_graph`); the decoder's
first convolution on the broadcast grid; a grid of positions projected for each slot anew; the two GRUs as one product
with zero-padded matrices; contiguous memory. It is our re-implementation of their way of computing, not their code.
What ours saves is measured against it (`emorl reproduce speed`), and tests demand that both give the same loss and
gradients.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from emorl.models.efficient_morl import EfficientMORL, refinement_weights
from emorl.models.efficient_morl_config import EfficientMORLConfig
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.position import PositionProjection, position_features
from emorl.nn.recurrent import DualGRU
from emorl.probability import Gaussian, Noise
from emorl.types import Decomposition, Outcome


class Reference(EfficientMORL):
    """Takes the state dict of an `EfficientMORL`. Knows the DualGRU and fresh draws for the prior only."""

    def __init__(self, config: EfficientMORLConfig) -> None:
        super().__init__(config)
        self.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    @staticmethod
    def of(model: EfficientMORL) -> Reference:
        """The same model in reference mode, with a copy of its weights."""
        reference = Reference(model.config).to(model.lam0)
        reference.load_state_dict(model.state_dict())
        return reference

    def forward(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        trace: bool = False,
        noise: Noise | None = None,
    ) -> Outcome:
        c = self.config
        training = torch.is_grad_enabled()
        (K, I), L = self.budget(num_slots, num_steps), c.inference.num_layers
        draw = partial(sample, noise or Noise())
        beta, weight = self.kl_weight, self.reconstruction_weight
        with torch.enable_grad():  # the authors evaluate without no_grad
            lam = self.lam0.expand(len(x), K, -1)
            posteriors = []
            if L:
                keys, values = self.layer.attention.keys_and_values(self.encode(x))
            for _ in range(L):
                lam = self.bottom_up_layer(keys, values, draw(normal(lam)), lam)
                posteriors.append(normal(lam))
            posterior = normal(lam)
            z = draw(posterior)
            priors, held_to = self.priors([draw(q) for q in posteriors], z)
            divergence = sum((kl(q, p) for q, p in zip(posteriors, priors, strict=True)), x.new_zeros(len(x)))
            losses: list[Tensor] = []
            steps, h = [], torch.zeros_like(z)
            for i in range(I + 1):
                if i > 0:
                    (gradient,) = torch.autograd.grad(
                        losses[-1], lam, create_graph=training, retain_graph=training
                    )
                    delta, h = self.update(lam, gradient, h)
                    lam = lam + delta
                    posterior = normal(lam)
                    z = draw(posterior)
                    divergence = kl(posterior, held_to)
                log_masks, components = self.render(z)
                nll = self.negative_log_likelihood(x, log_masks, components)
                losses.append((beta * divergence + weight * nll).sum())
                steps.append(Decomposition(log_masks.exp(), components, posterior.mean))
            weights = refinement_weights(I, c.objective.loss_weights)
            weighted = [w * loss_i for w, loss_i in zip(weights, losses, strict=True)]
            loss = torch.stack(weighted).sum() / len(x)
        return Outcome(loss, {"nll": nll.detach()}, tuple(steps))

    def encode(self, x: Tensor) -> Tensor:
        """Returns tokens (B, N, C) of images (B, 3, H, W)."""
        e = self.encoder
        features = e.convolutions(2 * x - 1).permute(0, 2, 3, 1).contiguous()
        features = features + positions(e.position, len(x), *features.shape[1:3])
        tokens: Tensor = e.token_mlp(e.norm(features.flatten(1, 2)))
        return tokens

    def bottom_up_layer(self, keys: Tensor, values: Tensor, z: Tensor, lam: Tensor) -> Tensor:
        """Returns λ^l, (B, K, 2D), of the layer after z^{l-1} and λ^{l-1}."""
        l, a = self.layer, self.layer.attention
        q = a.q(a.norm_z(z)) * z.shape[-1] ** -0.5
        attention = torch.einsum("bid,bjd->bij", q, keys).softmax(dim=1) + a.epsilon
        attention = attention / attention.sum(dim=-1, keepdim=True)
        theta = torch.einsum("bjd,bij->bid", values, attention)
        mu, s = self.padded_gru(torch.cat([theta, theta], dim=-1), lam).chunk(2, dim=-1)
        return torch.cat([mu + l.mlp_mu(l.norm_mu(mu)), s + l.mlp_s(l.norm_s(s))], dim=-1)

    def padded_gru(self, x: Tensor, h: Tensor) -> Tensor:
        """Both GRUs at once, with half of each matrix zeros. Gates come as (reset, update) of one, then the other."""
        g, D = self.layer.gru, h.shape[-1] // 2
        assert isinstance(g, DualGRU)
        gates = (
            x @ padded(g.weight_input[:, : 2 * D]).T
            + g.bias_input[:, : 2 * D].flatten()
            + h @ padded(g.weight_state[:, : 2 * D]).T
            + g.bias_state[:, : 2 * D].flatten()
        )
        r_1, u_1, r_2, u_2 = (gate.sigmoid() for gate in gates.chunk(4, dim=-1))
        r, u = torch.cat([r_1, r_2], dim=-1), torch.cat([u_1, u_2], dim=-1)
        candidate = x @ padded(g.weight_input[:, 2 * D :]).T + g.bias_input[:, 2 * D :].flatten()
        remembered = h @ padded(g.weight_state[:, 2 * D :]).T + g.bias_state[:, 2 * D :].flatten()
        return (1 - u) * torch.tanh(candidate + r * remembered) + u * h

    def priors(self, z: list[Tensor], like: Tensor) -> tuple[list[Normal], Normal]:
        """Returns the prior of each layer, whose draws `z` are, and the one that refinement is held to."""
        standard = Normal(torch.zeros_like(like), torch.ones_like(like))
        if not z:
            return [], standard
        if self.config.objective.prior == "bottom-up":
            chain = [standard, *map(self.conditional, z[:-1])]
            return chain, chain[-1]
        chain = [*map(self.conditional, z[1:]), standard]
        return chain, chain[0] if self.config.objective.prior == "reversed++" else standard

    def conditional(self, z: Tensor) -> Normal:
        """Returns the prior of a layer given a draw `z` of its neighbour."""
        hidden = self.prior.hidden(z)
        return normal(torch.cat([self.prior.mu(hidden), self.prior.s(hidden)], dim=-1))

    def update(self, lam: Tensor, gradient: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what a refinement adds to λ, (B, K, 2D), and the new state of its GRU."""
        f, D = self.refine, h.shape[-1]
        mu, s = (F.layer_norm(half.contiguous(), (D,)).detach() for half in gradient.chunk(2, dim=-1))
        encoded = f.encode(torch.cat([lam, mu, s], dim=-1))
        h = f.gru(encoded.flatten(0, 1), h.flatten(0, 1)).reshape(h.shape)
        return torch.cat([f.mu(h), f.s(h)], dim=-1), h

    def render(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log masks (B, K, 1, H, W) and components (B, K, 3, H, W) of slots (B, K, D)."""
        d, n = self.decoder, z.shape[0] * z.shape[1]
        assert isinstance(d, SpatialBroadcastDecoder)
        assert isinstance(d.position, PositionProjection)
        tiled = z.reshape(n, -1, 1, 1).expand(-1, -1, d.grid, d.grid)
        grid = positions(d.position, n, d.grid, d.grid).permute(0, 3, 1, 2).contiguous()
        output = d.rest(d.first(tiled + grid))[..., : d.image_size, : d.image_size]
        output = output.unflatten(0, z.shape[:2])
        return output[:, :, 3:].log_softmax(dim=1), output[:, :, :3].sigmoid()

    def negative_log_likelihood(self, x: Tensor, log_masks: Tensor, components: Tensor) -> Tensor:
        """Returns the NLL of each image, (B,)."""
        log_var = 2 * x.new_tensor(float(self.sigma)).log()
        if self.config.objective.likelihood == "gaussian":
            error = (x - (components * log_masks.exp()).sum(dim=1)).square()
            return (0.5 * log_var + 0.5 * error / log_var.exp()).sum(dim=(1, 2, 3))
        error = (x.unsqueeze(1) - components).square()
        density = -0.5 * log_var - 0.5 * (error / log_var.exp())
        return -torch.logsumexp(log_masks + density, dim=1).sum(dim=(1, 2, 3))


def positions(position: PositionProjection, n: int, H: int, W: int) -> Tensor:
    """The projected grid, computed `n` times over. Returns (n, H, W, C)."""
    features = position_features(H, W, position.frequencies, like=position.project.weight)
    projected: Tensor = position.project(features.repeat(n, 1, 1, 1))
    return projected


def padded(weights: Tensor) -> Tensor:
    """Two matrices (2, m, n) in the corners of one (2m, 2n) of zeros."""
    first, second = weights
    zeros = torch.zeros_like(first)
    return torch.cat([torch.cat([first, zeros], dim=1), torch.cat([zeros, second], dim=1)], dim=0)


def normal(lam: Tensor) -> Normal:
    """Returns the Gaussian with parameters λ (..., 2D), by the authors' formula for softplus."""
    mu, raw = lam.chunk(2, dim=-1)
    return Normal(mu, torch.sqrt(torch.log(1 + raw.clamp_max(80).exp()) + 1e-5))


def sample(noise: Noise, q: Normal) -> Tensor:
    """Returns a sample of `q` made of `noise`, so that it uses the same random numbers as our model."""
    return noise.sample(Gaussian(q.mean, q.stddev))


def kl(q: Normal, p: Normal) -> Tensor:
    """Returns D_KL(q || p), summed over slots and dimensions, (B,)."""
    return kl_divergence(Independent(q, 2), Independent(p, 2))
