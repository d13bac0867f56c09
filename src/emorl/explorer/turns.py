"""How an object is turned: z changes until the decoder paints what it painted before, seen from a turned place.

The frame of the "pixels" decoder has a turn, but trained weights hardly use it: how an object stands is a part of what
z says of its looks, and to force the frame's turn takes z where nothing is painted at all. That decoder paints at any
coordinates, so what a turned object looks like is known exactly: the same object at coordinates turned the other way.
z then takes Gauss-Newton steps towards it. They end where the model has learned to show such an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from emorl.nn.pixels import PixelDecoder

SIDE = 14  # points along a side of the square around the object at which it is compared
REACH = 2.2  # half that side, in spreads of the object
DAMPING = 0.5  # of the steps: larger keeps z closer to where it was
DIFFERENCE = 0.02  # of z, for derivatives
LONGEST_STEP = 0.3  # radians from one target to the next; further away the steps lead astray
MOST_TARGETS = 4  # for one request: a drag sends many


@torch.no_grad()
def turned(
    decoder: PixelDecoder, z: Tensor, rest: Tensor, spread: Tensor, angles: list[float], near: Tensor
) -> Tensor:
    """Returns a slot that shows what `z` (D,) shows, turned clockwise on the screen by the last of `angles`.

    It goes from target to target, beginning at `near` (D,). `rest` (K - 1, D) are the other slots, which hide parts;
    `spread` (3,) is the middle and log spread of what `z` shows.
    """
    middle, reach = spread[:2], REACH * math.exp(float(spread[2]))
    axis = torch.linspace(-reach, reach, SIDE)
    square = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1)
    behind = decoder.render(rest[None], square + middle)[0]

    def painted(slots: Tensor, places: Tensor = square) -> Tensor:
        return seen(decoder.render(slots[:, None], places + middle)[:, 0], behind)

    for angle in angles:
        near = stepped(painted, near, painted(z[None], turned_back(square, angle))[0])
    return near


def stepped(painted: Callable[[Tensor], Tensor], z: Tensor, target: Tensor) -> Tensor:
    """One damped Gauss-Newton step of `z` (D,) that brings `painted` closer to `target` (n,).

    Differences serve as derivatives: all of them are painted in one go, which is quicker than differentiating.
    """
    tried = painted(torch.cat([z[None], z + DIFFERENCE * torch.eye(len(z), device=z.device)]))
    jacobian = (tried[1:] - tried[0]).T / DIFFERENCE  # (n, D)
    square = jacobian.T @ jacobian + DAMPING * torch.eye(len(z), device=z.device)
    step: Tensor = torch.linalg.solve(square, jacobian.T @ (target - tried[0]))
    return z + step


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
    """The angles to go through, the last of which is `wanted`, or as far as one request goes; it is aimed at twice."""
    way = wanted - reached
    count = max(1, math.ceil(abs(way) / LONGEST_STEP))
    angles = [reached + way * n / count for n in range(1, count + 1)][:MOST_TARGETS]
    return [*angles, angles[-1]]
