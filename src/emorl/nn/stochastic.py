"""StochasticLayer: slots compete for tokens and update their posteriors (lines 8-15 of Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from emorl.nn.attention import SetAttention
from emorl.nn.mlp import mlp
from emorl.nn.own_frame import OwnFramePooling
from emorl.nn.recurrent import DualGRU, SingleGRU


@dataclass(frozen=True)
class Seen:
    """What all layers share of an image: keys and values of its tokens (B, N, D), and features for own frames."""

    keys: Tensor
    values: Tensor
    features: Tensor | None  # (B, 1, N, C)
    grid: tuple[int, int]  # h and w of the N tokens


class StochasticLayer(nn.Module):
    """One step of assigning pixels to slots and updating their posteriors; its weights serve all L layers."""

    def __init__(
        self,
        token_size: int,
        slot_size: int,
        *,
        gru: Literal["dual", "single"],
        norm_inputs: bool,
        own_frame: int,
        grid: int,
    ) -> None:
        super().__init__()
        D = slot_size
        self.attention = SetAttention(token_size, D, norm_inputs=norm_inputs)
        self.own_frame = OwnFramePooling(token_size, D, grid=grid, channels=own_frame) if own_frame else None
        self.gru = DualGRU(D) if gru == "dual" else SingleGRU(D)
        self.norm_mu = nn.LayerNorm(D)
        self.mlp_mu = mlp(D, 2 * D, D, activation=nn.ReLU)
        self.norm_s = nn.LayerNorm(D)
        self.mlp_s = mlp(D, 2 * D, D, activation=nn.ReLU)

    def look(self, features: Tensor, tokens: Tensor) -> Seen:
        """Projects features (B, C, h, w) and tokens (B, N, C) once for all layers."""
        what = None if self.own_frame is None else self.own_frame.what(features.flatten(2).mT).unsqueeze(1)
        height, width = features.shape[-2:]
        return Seen(*self.attention.keys_and_values(tokens), what, (height, width))

    def forward(self, seen: Seen, z: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
        """Returns λ^l (B, K, 2D) and α (B, K, N), given a sample `z` of layer l-1 and its λ."""
        theta, alpha = self.attention(seen.keys, seen.values, z)  # lines 8-11
        if self.own_frame is not None:
            theta = theta + self.own_frame(seen.features, self.attention.shares(alpha))
        mu, s = self.gru(theta, lam).chunk(2, dim=-1)  # lines 12-13
        mu = mu + self.mlp_mu(self.norm_mu(mu))  # line 14
        s = s + self.mlp_s(self.norm_s(s))  # line 15; Difference 10: unconstrained, so it can shrink too
        return torch.cat([mu, s], dim=-1), alpha
