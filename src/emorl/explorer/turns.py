"""How an object is turned: z changes until the decoder paints what it painted before, seen from a turned place.

The frame of the "pixels" decoder has a turn, but trained weights hardly use it: how an object stands is a part of what
z says of its looks, and to force the frame's turn takes z where nothing is painted at all. That decoder paints at any
coordinates, so what a turned object looks like is known exactly: the same object at coordinates turned the other way.
z takes Gauss-Newton steps towards it, along directions in which slots of real scenes differ.

A model paints what it has seen. Sprites stand in every direction; objects of CLEVR stand on a floor and never lie on
their side. Where the steps no longer come close to the turned object, the turn ends, before the object loses its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.nn.pixels import PixelDecoder

SIDE = 14  # points along a side of the square around the object at which it is compared
REACH = 2.2  # half that side, in spreads of the object
DAMPING = 0.5  # of the steps: larger keeps z closer to where it was
DIFFERENCE = 0.02  # of z, for derivatives
STEPS = 2  # towards each target
LONGEST_STEP = 0.3  # radians from one target to the next; further away the steps lead astray
MOST_TARGETS = 3  # for one request: a drag sends many
FURTHEST_OFF = 0.04  # squared difference from the turned object, as a share of it: more is another object
SHRINKAGE = (
    0.1  # of covariances towards their diagonal: there are not many more objects than numbers in a slot
)


@dataclass(frozen=True)
class Turn:
    """How far an object was turned, and what that has changed of its slot."""

    angle: float = 0.0  # radians, clockwise on the screen
    change: Tensor | float = 0.0  # (D,), added to z
    is_held: bool = False  # whether more was wanted than the model can show


@torch.no_grad()
def turned(
    decoder: PixelDecoder, z: Tensor, rest: Tensor, spread: Tensor, done: Turn, wanted: float, metric: Tensor
) -> Turn:
    """Turns what `z` (D,) shows by `wanted` radians, or as far as the model can and one request goes.

    `done` is what an earlier request has reached. `rest` (K - 1, D) are the other slots, which hide parts; `spread`
    (3,) is the middle and log spread of what `z` shows; `metric` (D, D) says how unlike real slots a change of z is.
    """
    middle, reach = spread[:2], REACH * math.exp(float(spread[2]))
    axis = torch.linspace(-reach, reach, SIDE, device=z.device)
    square = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1)
    behind = decoder.render(rest[None], square + middle)[0]

    def painted(slots: Tensor, places: Tensor = square) -> Tensor:
        return seen(decoder.render(slots[:, None], places + middle)[:, 0], behind)

    for angle in targets_of(done.angle, wanted):
        target = painted(z[None], turned_back(square, angle))[0]
        near, off = stepped(painted, z + done.change, target, metric)
        if off > FURTHEST_OFF and abs(angle) < abs(done.angle):  # the way back is always open: from the start
            return turned(decoder, z, rest, spread, Turn(), wanted, metric)
        if off > FURTHEST_OFF:
            return Turn(done.angle, done.change, is_held=True)
        done = Turn(angle, near - z)
    return done


def stepped(
    painted: Callable[[Tensor], Tensor], z: Tensor, target: Tensor, metric: Tensor
) -> tuple[Tensor, float]:
    """Takes damped Gauss-Newton steps from `z` (D,) that bring `painted` closer to `target` (n,).

    Differences serve as derivatives, all of them painted in one go, which is quicker than differentiating; the steps
    are so short that they share them. Returns where they end, and how far off `painted` is there.
    """
    tried = painted(torch.cat([z[None], z + DIFFERENCE * torch.eye(len(z), device=z.device)]))
    jacobian, missing = (tried[1:] - tried[0]).T / DIFFERENCE, target - tried[0]  # (n, D), (n,)
    way = torch.linalg.solve(jacobian.T @ jacobian + DAMPING * metric, jacobian.T)  # (D, n)
    for _ in range(STEPS):
        z = z + way @ missing
        missing = target - painted(z[None])[0]
    return z, float(missing.square().sum() / target.square().sum().clamp_min(1e-6))


def metric_of(slots: Tensor) -> Tensor:
    """The inverse covariance (D, D) of `slots` (N, D), in units of their mean variance: small where slots differ."""
    if len(slots) < 2:
        return torch.eye(slots.shape[1], device=slots.device)
    covariance = torch.cov(slots.T)
    variances = covariance.diagonal()
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * variances.diag()
    # A number that is the same in all slots has no variance: a little keeps the inverse finite.
    shrunk = shrunk + 1e-3 * variances.mean().clamp_min(1e-6) * torch.eye(len(variances), device=slots.device)
    inverse: Tensor = torch.linalg.inv(shrunk)
    return variances.mean().clamp_min(1e-6) * inverse


def seen(painted: Tensor, behind: Tensor) -> Tensor:
    """What slots, each painted as (4, h, w), would add to a picture whose other slots are `behind` (K - 1, 4, h, w).

    Returns masks and masked colours, (N, 4 h w).
    """
    hidden = behind[:, 3:].logsumexp(dim=0)
    masks = (painted[:, 3:] - hidden).sigmoid()
    return torch.cat([masks, masks * painted[:, :3].sigmoid()], dim=1).flatten(1)


def turned_back(places: Tensor, angle: float) -> Tensor:
    """`places` (..., 2) of (down, right) turned by `angle` against the clock, around (0, 0)."""
    down, right = places.unbind(dim=-1)
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.stack([cos * down - sin * right, sin * down + cos * right], dim=-1)


def targets_of(reached: float, wanted: float) -> list[float]:
    """The angles to go through, the last of which is `wanted`, or as far as one request goes."""
    way = wanted - reached
    count = max(1, math.ceil(abs(way) / LONGEST_STEP))
    return [reached + way * n / count for n in range(1, count + 1)][:MOST_TARGETS]
