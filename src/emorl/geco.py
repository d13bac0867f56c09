"""GECO (Rezende & Viola, 2018): the KL is minimised subject to a bound on the reconstruction error.

The weight of the reconstruction rises while the error is above the target and falls afterwards. It is state of the
model, because refinement follows the gradient of the weighted loss at test time too; only `update` changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import UserError


@dataclass(frozen=True)
class GecoConfig:
    """The reconstruction to reach, said in one of three ways; with none of them GECO is off."""

    target: Literal["auto"] | float | None = None  # C of the paper, for a whole image; or from the data
    target_per_element: float | None = None  # the same, divided by 3 x H x W
    target_mse: float | None = None  # the mean squared error wanted, for people
    unexplained: float = 0.02  # share of the images' variance that "auto" leaves unexplained
    allow_unreachable: bool = False  # accept a target below the lowest NLL: the weight grows for ever
    step_size: float = 1e-6  # of ζ, for a given target
    rate: float = 0.004  # of the logarithm of the weight under "auto", at most, per step
    decay: float = 0.99  # of the moving average of the gap to the target
    warm_up: int = 1000  # steps before the weight moves

    def resolve(self, *, elements: int, sigma: float) -> float | Literal["auto"] | None:
        """Returns the target as the NLL of an image of `elements` values under a Gaussian of scale `sigma`."""
        floor = elements * math.log(sigma)  # of every likelihood, at zero error
        given: dict[str, float | Literal["auto"] | None] = {"target": self.target}
        if self.target_per_element is not None:
            given["target_per_element"] = elements * self.target_per_element
        if self.target_mse is not None:
            given["target_mse"] = floor + elements * self.target_mse / (2 * sigma**2)
        targets = {name: value for name, value in given.items() if value is not None}
        if not targets:
            return None
        if len(targets) > 1:
            raise UserError(f"GECO takes one target, not {' and '.join(targets)}: set the others to None.")
        ((name, target),) = targets.items()
        if target != "auto" and target <= floor and not self.allow_unreachable:
            raise UserError(
                f"GECO {name} = {getattr(self, name):g} cannot be reached: with sigma {sigma:g} even a perfect "
                f"reconstruction has an NLL of {floor:.1f} per image ({math.log(sigma):.4f} per element). "
                f"Choose a higher one, say a target_mse of 0.001, or set allow_unreachable."
            )
        return target

    def build(self, *, elements: int, sigma: float) -> Geco | AutoGeco | None:
        """Returns the module that weighs the NLL, or None if GECO is off."""
        target = self.resolve(elements=elements, sigma=sigma)
        if target is None:
            return None
        if target == "auto":
            return AutoGeco(
                elements=elements,
                sigma=sigma,
                unexplained=self.unexplained,
                rate=self.rate,
                decay=self.decay,
                warm_up=self.warm_up,
            )
        return Geco(target, step_size=self.step_size, decay=self.decay, warm_up=self.warm_up)


class Geco(nn.Module):
    """Weighs the NLL so that the KL is minimised subject to NLL <= target."""

    zeta: Tensor
    gap: Tensor
    updates: Tensor
    FLOOR = 0.55  # softplus of it is 1.0055: the weight never falls below that of the ELBO (Difference 8)

    def __init__(self, target: float, *, step_size: float, decay: float, warm_up: int) -> None:
        super().__init__()
        self.target = target
        self.step_size = step_size
        self.decay = decay
        self.warm_up = warm_up
        self.register_buffer("zeta", torch.tensor(self.FLOOR))
        self.register_buffer("gap", torch.tensor(0.0))  # moving average of target - NLL
        self.register_buffer("updates", torch.tensor(0))

    @property
    def weight(self) -> Tensor:
        """What the NLL is multiplied by: 1 while warming up, then softplus(ζ)."""
        return torch.where(self.updates >= self.warm_up, F.softplus(self.zeta), torch.ones_like(self.zeta))

    @torch.no_grad()
    def update(self, nll: Tensor, variance: Tensor) -> None:
        """Moves the weight, given means over the batch just trained on: NLL per image, variance within an image."""
        self.updates += 1
        if self.updates <= self.warm_up:
            return
        gap = self.target - nll
        is_first = self.updates == self.warm_up + 1
        self.gap.copy_(gap if is_first else self.decay * self.gap + (1 - self.decay) * gap)
        if not is_first:
            self.zeta.copy_((self.zeta - self.step_size * self.gap).clamp_min(self.FLOOR))


class AutoGeco(nn.Module):
    """GECO without a number to tune: the target is a share of the images' own variance.

    The error is measured in units of the target and the weight moves by a factor, so neither depends on the size or
    the contrast of the images. It starts at the ELBO's weight and multiplies, after the warm-up, until the target is
    met.
    """

    weight: Tensor
    error: Tensor
    variance: Tensor
    updates: Tensor
    BOUNDS = (1.0, 1e4)

    def __init__(
        self, *, elements: int, sigma: float, unexplained: float, rate: float, decay: float, warm_up: int
    ) -> None:
        super().__init__()
        self.floor = elements * math.log(sigma)
        self.scale = elements / (2 * sigma**2)
        self.unexplained = unexplained
        self.rate = rate
        self.decay = decay
        self.warm_up = warm_up
        self.register_buffer("weight", torch.tensor(1.0))
        self.register_buffer("error", torch.tensor(0.0))  # moving average of the mean squared error
        self.register_buffer("variance", torch.tensor(0.0))  # mean over all images seen
        self.register_buffer("updates", torch.tensor(0))

    @torch.no_grad()
    def update(self, nll: Tensor, variance: Tensor) -> None:
        """The contract of Geco.update."""
        self.updates += 1
        self.variance += (variance - self.variance) / self.updates
        error = (nll - self.floor) / self.scale
        self.error.copy_(error if self.updates == 1 else self.decay * self.error + (1 - self.decay) * error)
        if self.updates <= self.warm_up:
            return
        excess = (self.error / (self.unexplained * self.variance)).clamp_min(1e-6).log().clamp(-1, 1)
        self.weight.copy_((self.weight * (self.rate * excess).exp()).clamp(*self.BOUNDS))


@dataclass(frozen=True)
class KLGecoConfig:
    """The GECO of GENESIS and GENESIS-V2, which moves the weight of the KL; the published numbers by default."""

    # NLL per element, the constant ½ log 2π included; None: β stays where it starts.
    goal: float | None = 0.5655
    start: float = 1.0  # β at the beginning
    step_size: float = 1e-5  # of the logarithm of β, per nat, for images of 64x64 pixels
    speed_up: float = 10.0  # how many times as fast β rises as it falls
    decay: float = 0.99  # of the moving average of the NLL
    bounds: tuple[float, float] = (1e-10, 1e10)  # of β

    def build(self, *, image_size: int, sigma: float) -> KLGeco:
        """Returns the module that weighs the KL of images of this size under a Gaussian of scale `sigma`."""
        target = None
        if self.goal is not None:
            elements, constant = 3 * image_size**2, 0.5 * math.log(2 * math.pi)
            target = elements * (self.goal - constant)
            floor = math.log(sigma) + constant
            if self.goal <= floor:
                raise UserError(
                    f"GECO goal = {self.goal:g} cannot be reached: with sigma {sigma:g} even a perfect reconstruction "
                    f"has an NLL of {floor:.4f} per element. Choose a higher one."
                )
        return KLGeco(
            target,
            start=self.start,
            step_size=self.step_size * 64**2 / image_size**2,
            speed_up=self.speed_up,
            decay=self.decay,
            bounds=self.bounds,
        )


class KLGeco(nn.Module):
    """Weighs the KL by β, which falls by a factor while the NLL is above its target and rises while it is below."""

    beta: Tensor
    nll: Tensor
    updates: Tensor

    def __init__(
        self,
        target: float | None,
        *,
        start: float,
        step_size: float,
        speed_up: float,
        decay: float,
        bounds: tuple[float, float],
    ) -> None:
        super().__init__()
        self.target = target
        self.step_size = step_size
        self.speed_up = speed_up
        self.decay = decay
        self.bounds = bounds
        self.register_buffer("beta", torch.tensor(start))
        self.register_buffer("nll", torch.tensor(0.0))  # moving average
        self.register_buffer("updates", torch.tensor(0))

    @torch.no_grad()
    def update(self, nll: Tensor) -> None:
        """Moves β, given the mean NLL per image of the batch just trained on."""
        self.updates += 1
        self.nll.copy_(nll if self.updates == 1 else self.decay * self.nll + (1 - self.decay) * nll)
        if self.target is None:
            return
        gap = self.target - self.nll
        rate = self.step_size * torch.where(gap > 0, self.speed_up, 1.0)
        self.beta.copy_((self.beta * (rate * gap).exp()).clamp(*self.bounds))
