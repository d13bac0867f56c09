"""IODINE once more, without what makes ours fast: tests demand the same loss and gradients of both."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Independent, Normal, kl_divergence

from emorl.models.iodine import IODINE
from emorl.nn.decoder import SpatialBroadcastDecoder
from helpers import present


class PlainIODINE:
    """IODINE once more, written down plainly: ordinary autograd with retained graphs and torch.distributions, the
    decoder's first convolution unfolded, the inputs of refinement one by one with loops over slots.
    """

    def __init__(self, model: IODINE) -> None:
        self.m, self.c = model, model.config

    def paint(self, z: Tensor) -> tuple[Tensor, Tensor]:
        B, K, _ = z.shape
        H = self.c.image_size
        if self.c.legacy_constants:
            z = torch.cat([z, torch.full((B, K, 1), 5.0, dtype=z.dtype)], -1)
        line = torch.linspace(-1, 1, H, dtype=z.dtype)
        grid = torch.stack([line[:, None].expand(H, H), line[None].expand(H, H)]).expand(B * K, -1, -1, -1)
        tiled = z.reshape(B * K, -1, 1, 1).expand(-1, -1, H, H)
        decoder = self.m.decoder
        assert isinstance(decoder, SpatialBroadcastDecoder)
        out = decoder.rest(decoder.first(torch.cat([tiled, grid], 1))).reshape(B, K, 4, H, H)
        return (out[:, :, :3].sigmoid() if self.c.bounded else out[:, :, :3]), out[:, :, 3:]

    def density(self, x: Tensor, y: Tensor) -> Tensor:
        """p(x | y) with channels multiplied, (..., 1, H, W)."""
        s = self.c.likelihood_sigma
        if self.c.likelihood == "logistic":
            e = torch.exp(-(x - y) / s)
            return (e / (s * (1 + e) ** 2)).prod(-3, keepdim=True)
        return (torch.exp(-((x - y) ** 2) / (2 * s**2)) / s).prod(-3, keepdim=True)

    def log_p(self, x: Tensor, y: Tensor, masks: Tensor) -> Tensor:
        """log p(x) of each pixel, (B, 1, H, W)."""
        if self.c.likelihood == "gaussian":
            return self.density(x, (masks * y).sum(1)).log()
        return (masks * self.density(x[:, None], y)).sum(1).log()

    def inputs(self, x: Tensor, y: Tensor, logits: Tensor, dy: Tensor, dlogits: Tensor) -> Tensor:
        K, masks = y.shape[1], logits.softmax(1)
        log_p, p = self.log_p(x, y, masks), self.density(x[:, None], y)

        def norm(name: str, t: Tensor) -> Tensor:
            layer = self.m.refine.norms[name]
            assert isinstance(layer, nn.GroupNorm)
            scale, shift = layer.weight[:, None, None], layer.bias[:, None, None]
            return F.layer_norm(t.detach(), t.shape[-3:]) * scale + shift

        rows = []
        for k in range(K):
            others = [j for j in range(K) if j != k]
            left = masks[:, others] / masks[:, others].sum(1, keepdim=True)
            parts = [
                x, y[:, k], logits[:, k], masks[:, k], p[:, k] / (p.sum(1) + 1e-6),
                norm("gradient_means", dy[:, k]), norm("gradient_logits", dlogits[:, k]),
                norm("log_likelihood", log_p), norm("counterfactual", log_p - self.log_p(x, y[:, others], left)),
            ]  # fmt: skip
            H = x.shape[-1]
            if self.c.coordinates == "linear":
                line = torch.linspace(-1, 1, H, dtype=x.dtype)
                grids = [line[:, None].expand(H, H), line[None].expand(H, H)]
            else:
                line = torch.linspace(0, torch.pi, H, dtype=x.dtype)
                pairs = [(a, b) for a in range(3) for b in range(3) if a + b > 0]
                grids = [torch.cos(a * line)[:, None] * torch.cos(b * line)[None] for a, b in pairs]
            parts.append(torch.stack(grids).expand(len(x), -1, -1, -1))
            if self.c.legacy_constants:
                parts.append(torch.full_like(x[:, :1], 0.5))
            rows.append(torch.cat(parts, 1))
        return torch.stack(rows, 1)

    def lstm(self, inputs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = present(self.m.refine.lstm).gates
        i, g, f, o = (torch.cat([inputs, h], -1) @ gates.weight.T + gates.bias).chunk(4, -1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def loss(self, x: Tensor, K: int, T: int, noise: list[Tensor]) -> Tensor:
        m, f, B = self.m, self.m.refine, len(x)
        lam = m.lam0.expand(B, K, -1)
        size = self.c.lstm_size
        h = c = torch.zeros(B, K, size, dtype=x.dtype)
        total = torch.zeros((), dtype=x.dtype)
        for t in range(T + 1):
            mu, raw = lam.chunk(2, -1)
            q = Normal(mu, torch.sqrt(torch.log1p(torch.exp(raw)) + 1e-5))
            prior = Normal(torch.zeros_like(mu), torch.full_like(mu, self.c.prior_variance**0.5))
            y, logits = self.paint(q.mean + q.stddev * noise[t])
            nll = -self.log_p(x, y, logits.softmax(1)).sum((1, 2, 3))
            kl = kl_divergence(Independent(q, 2), Independent(prior, 2))
            loss = (nll + self.c.kl_weight.final * kl).sum()
            total = total + t / T * loss / B
            if t == T:
                return total
            dlam, dy, dlogits = torch.autograd.grad(loss, (lam, y, logits), create_graph=True)
            if not self.c.picture_gradients:
                y, logits = y.detach(), logits.detach()
            features = f.convolutions(self.inputs(x, y, logits, dy, dlogits).flatten(0, 1))
            pooled = features.mean((2, 3)) if self.c.refine_pooling else features.flatten(1)
            normed = F.layer_norm(
                dlam.detach(), dlam.shape[-1:], f.norm_gradient.weight, f.norm_gradient.bias
            )
            parts = [f.mlp(pooled).unflatten(0, (B, K)), lam, normed]
            if self.c.legacy_constants:
                parts.append(torch.full((B, K, 1), 0.5, dtype=x.dtype))
            hidden = torch.cat(parts, -1)
            if size:
                h, c = self.lstm(hidden, h, c)
                hidden = h
            lam = lam + f.head(hidden)
        raise AssertionError
