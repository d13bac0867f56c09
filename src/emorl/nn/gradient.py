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

# z (b, K, D) of some images of the batch, and which ones -> a value per image (b,), and whatever else came with it.
Loss = Callable[[Tensor, slice], tuple[Tensor, ...]]


def value_and_gradient(
    f: Loss,
    z: Tensor,
    parameters: Iterable[Tensor] = (),
    *,
    needed: bool = True,
    images_at_once: int | None = None,
) -> tuple[Tensor, ...]:
    """Evaluates `f(z)` = (values (B,), *others). Returns (Σ_b values_b, values, *others).

    The sum is differentiable with respect to `z` and those of `parameters` that are trained, at no further cost; the
    rest is detached. A sum and not a mean: the decomposition of an image must not depend on its neighbours in the
    batch. Where the gradient is not `needed`, none is computed. `images_at_once` is how many images `f` is given at a
    time, by default all: a few take less memory, and may stay in the processor's cache.
    """
    if not needed:
        with torch.no_grad():
            values, *others = joined(
                [f(z[images], images) for images in parts_of(z.shape[0], images_at_once)]
            )
        return values.sum(), values, *others
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return KnownGradient.apply(f, images_at_once, z, *trained)  # type: ignore[no-any-return, no-untyped-call]


def parts_of(count: int, at_once: int | None) -> list[slice]:
    """Slices of at most `at_once` of `count` images that cover all of them; None: one for all, however many.

    The latter asks nothing of `count`, which an exported graph does not know.
    """
    if at_once is None:
        return [slice(None)]
    return [slice(start, start + at_once) for start in range(0, max(1, count), at_once)]


def joined(parts: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The results for some images after one another, made one for all of them."""
    return parts[0] if len(parts) == 1 else tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


class KnownGradient(torch.autograd.Function):
    """A scalar whose gradient was computed together with its value."""

    @staticmethod
    def forward(
        ctx: Any, f: Loss, images_at_once: int | None, z: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        """Computes value and gradient, a few images at a time, and keeps the gradient alone."""
        sums: list[Tensor] = []  # of the parameters' gradients
        of_z: list[Tensor] = []
        results: list[tuple[Tensor, ...]] = []
        for images in parts_of(z.shape[0], images_at_once):
            with torch.enable_grad():
                leaf = z[images].detach().requires_grad_()
                result = f(leaf, images)
                gradient, *of_parameters = torch.autograd.grad(result[0].sum(), (leaf, *parameters))
            of_z.append(gradient)
            results.append(tuple(tensor.detach() for tensor in result))
            pairs = zip(sums, of_parameters, strict=True)
            sums = [total.add_(one) for total, one in pairs] if sums else of_parameters
        whole = joined(results)
        ctx.save_for_backward(torch.cat(of_z), *sums)
        ctx.mark_non_differentiable(*whole)
        return whole[0].sum(), *whole

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Scales the gradient that is known."""
        return None, None, *(scale * gradient for gradient in ctx.saved_tensors)
