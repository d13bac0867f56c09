"""How an object is moved and resized: which change of a slot z does it.

The "pixels" decoder reads a slot's centre and size from z by a linear layer. So the shortest change of z that changes
one of them and leaves the others alone is a column of that layer's pseudo-inverse. Of other decoders, the place and the
spread of what a slot shows are differentiated with respect to z, and z goes along that gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.nn.lattice import pixel_centres
from emorl.nn.pixels import PixelDecoder

LEAST_WEIGHT = (
    1e-3  # of what a slot shows, on average over pixels: below it, nothing is seen that could be moved
)
PULLS = 8  # steps along the gradient for each message of a drag, for decoders without a frame
DAMPING = 1e-3  # of those steps, in squared image units
LONGEST_PULL = 0.06  # of those steps, in image units: further away the gradient means nothing
CLOSE = 0.02  # image units: half a pixel or less


@dataclass(frozen=True)
class Move:
    """A change of an object, in units of the image, which reaches from -1 to 1."""

    down: float = 0.0
    right: float = 0.0
    grow: float = 0.0  # added to the logarithm of its size
    turn: float = 0.0  # radians, clockwise on the screen


@dataclass(frozen=True)
class Place:
    """Where on the image something is seen, and how far it spreads."""

    down: float
    right: float
    size: float
    can_turn: bool = False


def move_in_frame(decoder: PixelDecoder, z: Tensor, move: Move, middle: Tensor) -> Tensor:
    """Returns `z` (D,) with its frame moved and resized, and nothing else that its frame says.

    An object need not stand in the middle of its frame: it grows around its own `middle` (2,).
    """
    centre, _, _ = decoder.frame_of(z)
    held = (1 - math.exp(move.grow)) * (middle - centre)
    shift = torch.cat([z.new_tensor([move.down, move.right]) + held, z.new_tensor([move.grow, 0.0, 0.0])])
    moved: Tensor = z + torch.linalg.pinv(decoder.frame.weight) @ shift
    return moved


def pulled(spread_of: Callable[[Tensor], Tensor], z: Tensor, wanted: Tensor, most_steps: int) -> Tensor:
    """Changes `z` (D,) in small steps until what it shows has the place and log spread that is `wanted` (3,)."""
    for _ in range(most_steps):
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            here = spread_of(leaf)
            rows = [torch.autograd.grad(value, leaf, retain_graph=True)[0] for value in here]
        jacobian, missing = torch.stack(rows), (wanted - here).detach()
        if missing.norm() < CLOSE:
            break
        step = missing * min(1.0, LONGEST_PULL / float(missing.norm()))
        damped = jacobian @ jacobian.T + DAMPING * torch.eye(len(step), device=z.device)
        z = leaf.detach() + jacobian.T @ torch.linalg.solve(damped, step)
    return z.detach()


def common_colour(image: Tensor) -> Tensor:
    """The most common colour (3, 1, 1) of an image (3, H, W): the median of each channel."""
    return image.flatten(1).median(dim=1).values[:, None, None]


def shown(mask: Tensor, colours: Tensor, common: Tensor) -> Tensor:
    """How much of each pixel (H, W) a slot makes different from the image's most common colour (3, 1, 1).

    Where slots share a plain background, their masks alone do not say where their objects are.
    """
    return mask[0] * (colours - common).abs().mean(dim=0)


def spread(weights: Tensor) -> Tensor:
    """Middle (down, right) and log of the spread of `weights` (H, W), (3,)."""
    places = pixel_centres(weights.shape[-1], like=weights)
    share = (weights / weights.sum().clamp_min(1e-8)).unsqueeze(-1)
    middle = (share * places).sum(dim=(0, 1))
    variance = (share * (places - middle).square()).sum().clamp_min(1e-6)
    return torch.cat([middle, 0.5 * variance.log().unsqueeze(0)])


def is_seen(weights: Tensor) -> bool:
    """Whether a slot shows anything that could be moved."""
    return float(weights.mean()) > LEAST_WEIGHT
