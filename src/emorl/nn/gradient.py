"""value_and_gradient: a loss, its gradient, and no graph left behind.

Refinement needs dL/dλ now and training needs w·dL/d(everything) later: the same derivative of the same scalar, up to a
weight. It is computed once, right away, and the activations are freed before the next refinement step; so training
runs the decoder backward once per step, and its memory does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Loss = Callable[[Tensor], tuple[Tensor, ...]]  # z -> a value per image (B,), and whatever else came with it


def value_and_gradient(
    f: Loss, z: Tensor, parameters: Iterable[Tensor] = (), *, needed: bool = True
) -> tuple[Tensor, ...]:
    """Evaluates `f(z)` = (values (B,), *others). Returns (Σ_b values_b, values, *others).

    The sum is differentiable with respect to `z` and those of `parameters` that are trained, at no further cost; the
    rest is detached. A sum and not a mean: the decomposition of an image must not depend on its neighbours in the
    batch. Where the gradient is not `needed`, none is computed.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not needed:
        with torch.no_grad():
            values, *others = f(z)
        return values.sum(), values, *others
    return KnownGradient.apply(f, z, *trained)  # type: ignore[no-any-return, no-untyped-call]


class KnownGradient(torch.autograd.Function):
    """A scalar whose gradient was computed together with its value."""

    @staticmethod
    def forward(ctx: Any, f: Loss, z: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        """Computes value and gradient at once and keeps the gradient alone."""
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            values, *others = f(leaf)
            total = values.sum()
            gradients = torch.autograd.grad(total, (leaf, *parameters))
        ctx.save_for_backward(*gradients)
        results = [values.detach(), *(other.detach() for other in others)]
        ctx.mark_non_differentiable(*results)
        return total.detach(), *results

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Scales the gradient that is known."""
        return None, *(scale * gradient for gradient in ctx.saved_tensors)
