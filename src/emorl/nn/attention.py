"""SetAttention: tokens are assigned to slots that compete for them (lines 8-11 of Algorithm 1)."""

from __future__ import annotations

from torch import Tensor, nn


class SetAttention(nn.Module):
    """Scaled dot-product attention whose softmax runs over the K queries instead of the N keys."""

    def __init__(
        self, token_size: int, slot_size: int, *, norm_inputs: bool = False, epsilon: float = 1e-8
    ) -> None:
        super().__init__()
        self.norm_inputs = nn.LayerNorm(token_size) if norm_inputs else nn.Identity()
        self.norm_z = nn.LayerNorm(slot_size)
        self.q = nn.Linear(slot_size, slot_size, bias=False)
        self.k = nn.Linear(token_size, slot_size, bias=False)
        self.v = nn.Linear(token_size, slot_size, bias=False)
        self.epsilon = epsilon

    def keys_and_values(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Projects `tokens` (B, N, C) once; all layers share the result, (B, N, D) each."""
        tokens = self.norm_inputs(tokens)
        return self.k(tokens), self.v(tokens)

    def forward(self, keys: Tensor, values: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Pools `values` (B, N, D) into one vector per slot of `z` (B, K, D). Returns Θ (B, K, D) and α (B, K, N)."""
        q = self.q(self.norm_z(z)) / z.shape[-1] ** 0.5  # line 8
        alpha = (q @ keys.mT).softmax(dim=1)  # line 9: slots compete
        return self.shares(alpha) @ values, alpha  # line 11

    def shares(self, alpha: Tensor) -> Tensor:
        """How much each token contributes to a slot: `alpha` (B, K, N) made to sum to one over N (line 10)."""
        weights = alpha + self.epsilon  # a slot that owns no token would divide by zero
        return weights / weights.sum(dim=2, keepdim=True)
