"""EfficientMORL once more, written down plainly to check the package's: ordinary autograd with retained graphs, the
decoder's first convolution unfolded, two GRU cells, torch.distributions. Slow and greedy on purpose.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from emorl.models.efficient_morl import EfficientMORL

LOG_2PI_HALF = 0.9189385332046727


def normal(lam: Tensor) -> Normal:
    mu, raw = lam.chunk(2, dim=-1)
    return Normal(mu, torch.sqrt(torch.log1p(torch.exp(raw)) + 1e-5))


def kl(q: Normal, p: Normal) -> Tensor:
    return kl_divergence(Independent(q, 2), Independent(p, 2))


def gru(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, c: Tensor) -> Tensor:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (x @ w.T + b).chunk(3, -1), (h @ u.T + c).chunk(3, -1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return (1 - z) * torch.tanh(n_x + r * n_h) + z * h


class Reference:
    def __init__(self, model: EfficientMORL) -> None:
        self.m = model

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        d = self.m.decoder
        B, K, D = z.shape
        tiled = z.reshape(B * K, D, 1, 1).expand(-1, -1, d.grid, d.grid)
        out = d.rest(d.first(tiled + d.position(d.grid, d.grid)))
        out = out[..., : d.image_size, : d.image_size].reshape(B, K, 4, d.image_size, d.image_size)
        return out[:, :, 3:].softmax(1), out[:, :, :3].sigmoid()

    def nll(self, x: Tensor, z: Tensor) -> Tensor:
        masks, components = self.decode(z)
        sigma, elements = self.m.config.likelihood_sigma, x[0].numel()
        if self.m.config.likelihood == "gaussian":
            log_p = Normal((masks * components).sum(1), sigma).log_prob(x).sum((1, 2, 3))
        else:
            density = Normal(components, sigma).log_prob(x[:, None]).exp()
            log_p = (masks * density).sum(1).log().sum((1, 2, 3))
        return -log_p - elements * LOG_2PI_HALF

    def layer(self, tokens: Tensor, z: Tensor, lam: Tensor) -> Tensor:
        l = self.m.layer
        a = l.attention
        k, v, q = a.k(a.norm_inputs(tokens)), a.v(a.norm_inputs(tokens)), a.q(a.norm_z(z))
        alpha = torch.einsum("bnd,bkd->bnk", k, q).div(z.shape[-1] ** 0.5).softmax(-1) + 1e-8
        theta = torch.einsum("bnk,bnd->bkd", alpha / alpha.sum(1, keepdim=True), v)
        g = l.gru
        mu, s = (
            gru(theta, half, g.weight_input[j], g.weight_state[j], g.bias_input[j], g.bias_state[j])
            for j, half in enumerate(lam.chunk(2, -1))
        )
        return torch.cat([mu + l.mlp_mu(l.norm_mu(mu)), s + l.mlp_s(l.norm_s(s))], -1)

    def given(self, z: Tensor) -> Normal:
        p = self.m.prior
        hidden = F.elu(p.hidden[0](z))
        return normal(torch.cat([p.mu(hidden), p.s(hidden)], -1))

    def refine(self, lam: Tensor, gradient: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        f, D = self.m.refine, lam.shape[-1] // 2
        g_mu, g_s = (F.layer_norm(half, (D,)) for half in gradient.detach().chunk(2, -1))
        e = f.encode(torch.cat([lam, g_mu, g_s], -1))
        cell = f.gru
        h = gru(e, h, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        return torch.cat([f.mu(h), f.s(h)], -1), h

    def loss(self, x: Tensor, K: int, I: int, noise: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Returns the training loss and each step's loss summed over images. `noise` is consumed in order."""
        c, m, source = self.m.config, self.m, iter(noise)
        beta, weight = float(m.beta), float(m.reconstruction_weight)

        def draw(q: Normal) -> Tensor:
            return q.mean + q.stddev * next(source)

        tokens = m.encoder(x) if c.num_layers else None
        lams = [m.lam0.expand(len(x), K, -1)]
        for _ in range(c.num_layers):
            lams.append(self.layer(tokens, draw(normal(lams[-1])), lams[-1]))
        lam = lams[-1]
        qs = [normal(l) for l in lams[1:]]
        z = draw(normal(lam))
        fresh = [draw(q) for q in qs]
        standard = Normal(torch.zeros_like(z), torch.ones_like(z))
        L = c.num_layers
        priors, held_to = [], standard
        if c.prior == "bottom-up":
            priors = [standard] + [self.given(fresh[l]) for l in range(L - 1)]
            held_to = priors[-1] if L else standard
        else:
            priors = [self.given(fresh[l]) for l in range(1, L)] + [standard]
            held_to = priors[0] if c.prior == "reversed++" and L else standard
        kl_0 = sum(kl(q, p) for q, p in zip(qs, priors, strict=False)) if L else torch.zeros(len(x))
        losses = [(beta * kl_0 + weight * self.nll(x, z)).sum()]
        h = torch.zeros_like(z)
        for _ in range(I):
            (gradient,) = torch.autograd.grad(losses[-1], lam, create_graph=True)
            delta, h = self.refine(lam, gradient, h)
            lam = lam + delta
            q = normal(lam)
            losses.append((beta * kl(q, held_to) + weight * self.nll(x, draw(q))).sum())
        if c.loss_weights == "paper":
            weights = [1.0] + [(I - (i - 1)) / (I + 1) for i in range(1, I + 1)]
        else:
            weights = [(I + 2 - i + 1) / (I + 1) for i in range(I + 1)]
        return sum(w * l for w, l in zip(weights, losses, strict=True)) / len(x), losses
