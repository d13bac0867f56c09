"""The inputs of IODINE's refinement network: what each slot paints, and how well that explains each pixel.

What slots have `painted` is (B, K, 4, H, W): colours y_k, then a mask logit. Densities drop the constant ½ log 2π, as
in probability.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

CHANNELS = {
    "image": 3,
    "means": 3,
    "mask_logits": 1,
    "masks": 1,
    "mask_posterior": 1,
    "gradient_means": 3,
    "gradient_logits": 1,
    "log_likelihood": 1,
    "counterfactual": 1,
}
NORMED = ("gradient_means", "gradient_logits", "log_likelihood", "counterfactual")  # and not differentiated


@dataclass(frozen=True)
class PixelLikelihood:
    """How slots explain a pixel, all three channels together.

    "mixture": it comes from one slot, Σ_k π_k N(x; y_k, σ²); "logistic": the same with heavier tails and a deviation of
    1.8 σ; "gaussian": it is what slots compose, N(x; Σ_k π_k y_k, σ²).
    """

    kind: Literal["mixture", "logistic", "gaussian"]
    sigma: float

    def log_density(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(x | y) of pixels (..., 3, H, W) around colours of that shape. Returns (..., 1, H, W)."""
        u = (x - y) / self.sigma
        log_p = -u - 2 * F.softplus(-u) if self.kind == "logistic" else -u.square() / 2
        return (log_p - math.log(self.sigma)).sum(dim=-3, keepdim=True)

    def __call__(self, x: Tensor, painted: Tensor) -> Tensor:
        """log p(x) of each pixel of `x` (B, 3, H, W). Returns (B, 1, H, W)."""
        colours, logits = painted.split([3, 1], dim=2)
        log_masks = logits.log_softmax(dim=1)
        if self.kind == "gaussian":
            return self.log_density(x, (log_masks.exp() * colours).sum(dim=1))
        joint: Tensor = log_masks + self.log_density(x.unsqueeze(1), colours)
        return joint.logsumexp(dim=1)


def refinement_inputs(
    x: Tensor, painted: Tensor, gradient: Tensor, likelihood: PixelLikelihood
) -> dict[str, Tensor]:
    """Returns the pictures that refinement is given, by name, (B, K, channels, H, W) each.

    K is 1 where slots share a picture. `gradient` is that of the loss with respect to `painted`.
    """
    colours, logits = painted.split([3, 1], dim=2)
    gradient_means, gradient_logits = gradient.split([3, 1], dim=2)
    p = likelihood.log_density(x.unsqueeze(1), colours).exp()
    log_likelihood = likelihood(x, painted).unsqueeze(1)
    seen = {
        "image": x.unsqueeze(1),
        "means": colours,
        "mask_logits": logits,
        "masks": logits.softmax(dim=1),
        "mask_posterior": p / (p.sum(dim=1, keepdim=True) + 1e-6),  # if every slot were as likely
        "gradient_means": gradient_means,
        "gradient_logits": gradient_logits,
        "log_likelihood": log_likelihood,
        "counterfactual": log_likelihood - leave_one_out(x, painted, likelihood),  # what slot k contributes
    }
    return {name: seen[name].detach() if name in NORMED else seen[name] for name in CHANNELS}


def leave_one_out(x: Tensor, painted: Tensor, likelihood: PixelLikelihood) -> Tensor:
    """log p(x) without slot k, the masks of the others summing to one again, (B, K, 1, H, W); 0 without others."""
    K = painted.shape[1]
    if K == 1:
        return torch.zeros_like(painted[:, :, :1])
    others = [torch.cat([painted[:, :k], painted[:, k + 1 :]], dim=1) for k in range(K)]
    return torch.stack([likelihood(x, other) for other in others], dim=1)
