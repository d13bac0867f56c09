"""Masks by breaking a stick: each slot takes a share of what the slots before it have left of every pixel.

The scope s_k is what is left before slot k: s_1 = 1, m_k = s_k α_k, s_{k+1} = s_k (1 - α_k), and the last slot takes
the rest, m_K = s_K. So masks sum to one whatever the shares are. All of it in logarithms, and in 32 bits or more: in
16, masks would sum to one up to half a percent.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from emorl.probability import as_float32


def stick_breaking(logits: Tensor) -> Tensor:
    """Turns `logits` (B, K - 1, 1, H, W) of the shares α_1..α_{K-1} into log masks (B, K, 1, H, W).

    The last of the K slots has no share of its own, so a network with K outputs leaves out the last of them. Leading
    slots alone (`logits[:, :k]`) give the masks of an explanation by k + 1 slots.
    """
    logits = as_float32(logits)
    log_left = F.logsigmoid(-logits).cumsum(dim=1)  # log s_2..s_K
    log_scopes = torch.cat([logits.new_zeros(logits.shape[0], 1, *logits.shape[2:]), log_left], dim=1)
    return torch.cat([log_scopes[:, :-1] + F.logsigmoid(logits), log_scopes[:, -1:]], dim=1)


def recursive_stick_breaking(share: Callable[[Tensor], Tensor], log_scope: Tensor, num_slots: int) -> Tensor:
    """The same where the share of a slot depends on its scope.

    `share` maps log s_k (B, 1, H, W) to the logits of α_k and is called K - 1 times; `log_scope` is log s_1, zeros.
    Returns log masks (B, K, 1, H, W).
    """
    log_masks = []
    for _ in range(num_slots - 1):
        logits = as_float32(share(log_scope))
        log_masks.append(log_scope + F.logsigmoid(logits))
        log_scope = log_scope + F.logsigmoid(-logits)
    return torch.stack([*log_masks, log_scope], dim=1)
