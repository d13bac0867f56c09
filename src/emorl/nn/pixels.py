"""PixelDecoder: paints a slot at any set of coordinates, without convolutions and without a resolution.

A slot has a frame of its own, read from z: a centre, a size and a turn. An MLP paints what is seen at a place in that
frame, so an object that moves keeps its shape and only its frame changes. z also scales and shifts every layer; that is
folded into the layer's weights, one set for each slot, and costs nothing per pixel.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emorl.nn.decoder import SlotDecoder
from emorl.nn.lattice import pixel_centres
from emorl.nn.position import fold_into_disc, harmonics
from emorl.probability import as_float32

START_SIZE = 0.5  # of a frame before anything is learned; the image reaches from -1 to 1
FREQUENCIES = 6  # half-waves over a frame: the finest detail that an outline has
SLOW = 2  # waves over the whole image, for what does not move with an object: backgrounds and light
DEPTH = 2  # hidden layers
# Without a gradient, pixels are painted in parts with so many numbers per layer: memory does not grow with the picture.
BLOCK = 2**20
IMAGES = 4  # to differentiate at a time: what they need stays in the cache of a CPU core


class PixelDecoder(SlotDecoder):
    """An MLP from a place in a slot's frame to a colour and a mask logit."""

    def __init__(self, *, image_size: int, slot_size: int, channels: int | None = None) -> None:
        super().__init__()
        D, C = slot_size, channels or 64
        self.image_size = image_size
        self.frame = nn.Linear(D, 5)
        self.place = nn.Linear(3 + 4 * FREQUENCIES, C)
        self.place_scale, self.place_shift = nn.Linear(D, C), nn.Linear(D, C)
        self.absolute = nn.Linear(4 * SLOW, C, bias=False)
        self.hidden = nn.ModuleList(nn.Linear(C, C) for _ in range(DEPTH))
        self.scale_and_shift = nn.ModuleList(nn.Linear(D, 2 * C) for _ in range(DEPTH))
        self.out = nn.Linear(C, 4)

    def initialise(self) -> None:
        """Called after the model's own initialisation: frames start close to the middle of the image."""
        nn.init.normal_(self.frame.weight, std=0.3 / self.frame.in_features**0.5)
        nn.init.zeros_(self.frame.bias)

    @property
    def paints_anywhere(self) -> bool:
        """True: `render` takes coordinates."""
        return True

    def images_at_once(self, z: Tensor) -> int | None:
        """As SlotDecoder has it."""
        return IMAGES if self.in_parts and z.device.type == "cpu" else None

    def render(self, z: Tensor, coordinates: Tensor | None = None) -> Tensor:
        """Paints `z` (B, K, D) at `coordinates` (h, w, 2), at every pixel of an image by default. (B, K, 4, h, w).

        Coordinates (B, h, w, 2) are others for each image.
        """
        if coordinates is None:
            coordinates = pixel_centres(self.image_size, like=z)
        h, w, _ = coordinates.shape[-3:]
        places = coordinates.flatten(-3, -2)
        if places.ndim == 3:  # those of an image are those of its slots
            places = places.repeat_interleave(z.shape[1], dim=0)
        if torch.is_grad_enabled() or not self.in_parts:
            painted = self.paint(z.flatten(0, 1), places)
        else:
            count = max(1, BLOCK // (z.shape[0] * z.shape[1] * self.out.in_features))
            parts = places.split(count, dim=-2)
            painted = torch.cat([self.paint(z.flatten(0, 1), part) for part in parts], dim=1)
        return as_float32(painted.mT.unflatten(-1, (h, w)).unflatten(0, z.shape[:2]))

    def paint(self, z: Tensor, places: Tensor) -> Tensor:
        """Colours and mask logit (N, n, 4) of slots `z` (N, D) at `places` (n, 2), or (N, n, 2) for each its own."""
        inside, far = fold_into_disc(self.in_frame(z, places))
        features = torch.cat([inside, far, harmonics(inside, FREQUENCIES)], dim=-1)
        scale = 1 + self.place_scale(z)
        weight = self.place.weight * scale.unsqueeze(-1)
        bias = self.place.bias * scale + self.place_shift(z)
        h = torch.baddbmm(bias.unsqueeze(1), features, weight.mT)
        h = (h + self.absolute(harmonics(places / 2, SLOW))).relu_()
        for layer, film in zip(self.hidden, self.scale_and_shift, strict=True):
            scale, shift = film(z).chunk(2, dim=-1)
            weight = layer.weight * (1 + scale).unsqueeze(-1)
            h = torch.baddbmm((layer.bias + shift).unsqueeze(1), h, weight.mT).relu_()
        painted: Tensor = self.out(h)
        return painted

    def in_frame(self, z: Tensor, places: Tensor) -> Tensor:
        """`places` of the image, as `paint` has them, as seen from the frame of each slot `z` (N, D), (N, n, 2)."""
        centre, log_size, turn = self.frame_of(z)
        cos, sin = turn.split(1, dim=-1)
        down, right = (places - centre.unsqueeze(1)).unbind(dim=-1)
        turned = torch.stack([cos * down - sin * right, sin * down + cos * right], dim=-1)
        return turned * (-log_size).exp().unsqueeze(1)

    def frame_of(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Centre (..., 2), log of the size (..., 1), cosine and sine of the turn (..., 2) of slots `z` (..., D)."""
        centre, log_size, turn = self.frame(z).split([2, 1, 2], dim=-1)
        upright = turn.new_tensor([1.0, 0.0])
        return centre, log_size + math.log(START_SIZE), F.normalize(turn + upright, dim=-1)
