"""Panels: small pictures in rows and columns with their names; and what slots hold as such pictures."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from emorl.objects import owners

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (H, W, 3)

PANEL = 96  # least side of a panel in a file, in pixels: small images are enlarged by a whole factor
GAP = 4
TEXT = 13  # height of letters
INK = (92, 98, 108)
FIRST = ("image", "rebuilt", "masks")  # panels before those of slots
OWNERS = FIRST.index("masks")


def palette(count: int) -> Pixels:
    """`count` colours far apart in hue; neighbours differ in brightness too. Returns (count, 3)."""
    golden = 0.61803398875
    colors = [colorsys.hsv_to_rgb((0.58 + golden * k) % 1, 0.72, 0.95 - 0.25 * (k % 2)) for k in range(count)]
    return (np.array(colors).reshape(-1, 3) * 255).astype(np.uint8)


@dataclass(frozen=True)
class Panels:
    """Pictures of one size, a sequence for each row; None leaves a place free."""

    rows: Sequence[Sequence[Pixels | None]]
    labels: Sequence[str] = ()  # of rows
    titles: Sequence[str] = ()  # of columns
    slots_from: int | None = None  # columns from here on belong to slots

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a panel, in pixels."""
        height, width, _ = next(panel.shape for row in self.rows for panel in row if panel is not None)
        return height, width

    @property
    def side(self) -> int:
        """The longer side of a panel, in pixels."""
        return max(self.size)

    @property
    def colors(self) -> list[tuple[int, int, int] | None]:
        """Of columns: the colour that a slot has in segmentations."""
        if self.slots_from is None:
            return [None for _ in self.titles]
        of_slots = palette(len(self.titles) - self.slots_from).tolist()
        return [None] * self.slots_from + [(r, g, b) for r, g, b in of_slots]

    def strip(self, row: int, scale: int) -> Image.Image:
        """One row without names, its panels enlarged by a whole factor; between them one sees through."""
        height, width = (side * scale for side in self.size)
        step = width + GAP
        canvas = Image.new("RGBA", (max(map(len, self.rows)) * step - GAP, height), (255, 255, 255, 0))
        for column, panel in enumerate(self.rows[row]):
            if panel is not None:
                enlarged = Image.fromarray(panel).resize((width, height), Image.Resampling.NEAREST)
                canvas.paste(enlarged, (column * step, 0))
        return canvas

    def drawn(self) -> Image.Image:
        """All rows on white, labels on the left and titles above, with a bar in the colour of the slot."""
        scale = max(1, -(-PANEL // self.side))
        down, step = (side * scale + GAP for side in self.size)
        font = ImageFont.load_default(TEXT)
        left = GAP + (
            max(int(font.getlength(label)) for label in self.labels) + 2 * GAP if self.labels else 0
        )
        top = GAP + (TEXT + 3 * GAP if self.titles else 0)
        size = (left + max(map(len, self.rows)) * step, top + len(self.rows) * down)
        canvas = Image.new("RGB", size, "white")
        draw = ImageDraw.Draw(canvas)
        for r in range(len(self.rows)):
            strip = self.strip(r, scale)
            canvas.paste(strip, (left, top + r * down), strip)
        for r, label in enumerate(self.labels):
            draw.text((left - 2 * GAP, top + r * down + down // 2), label, INK, font, anchor="rm")
        for c, (title, color) in enumerate(zip(self.titles, self.colors, strict=True)):
            x = left + c * step
            draw.text((x + (step - GAP) // 2, top // 2 - 1), title, INK, font, anchor="mm")
            if color is not None:
                draw.rectangle((x, top - 5, x + step - GAP - 1, top - 3), color)
        return canvas


def to_pixels(image: Tensor) -> Pixels:
    """Turns (3, H, W) in [0, 1] into 8-bit (H, W, 3)."""
    return (image.detach().clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()


def segmentation_pixels(segmentation: Tensor, *, has_background: bool) -> Pixels:
    """Colours ids (H, W); with a background, id 0 is dark grey."""
    colors = palette(int(segmentation.max()) + 1)
    if has_background:
        colors = np.concatenate([np.full((1, 3), 40, dtype=np.uint8), colors])
    pixels: Pixels = colors[segmentation.cpu().numpy()]
    return pixels


def owner_pixels(masks: Tensor) -> Pixels:
    """Colours each pixel by the slot that owns it, dark grey where none does; `masks` are (K, 1, H, W)."""
    owner = owners(masks.squeeze(1).detach().float().cpu().numpy())
    return segmentation_pixels(torch.from_numpy(owner) + 1, has_background=True)


def picture_row(picture: Tensor, masks: Tensor, components: Tensor) -> list[Pixels]:
    """Panels of one picture: itself, its reconstruction, the owners of its pixels, each component on its mask.

    Takes the picture (3, H, W), masks (K, 1, H, W) and components (K, 3, H, W).
    """
    rebuilt = (masks * components).sum(dim=0)
    shown = masks * components + (1 - masks)
    return [to_pixels(picture), to_pixels(rebuilt), owner_pixels(masks), *map(to_pixels, shown)]


def titles_of(row: Sequence[Pixels]) -> list[str]:
    """The names of the panels of `picture_row`."""
    return [*FIRST, *(f"slot {k}" for k in range(len(row) - len(FIRST)))]


def pictures_apart(rows: Sequence[Sequence[Pixels]], *, largest: int) -> Panels:
    """Rows of `picture_row`; panels have sides of at most `largest` pixels."""
    small = [shrunk(row, largest) for row in rows]
    return Panels(small, titles=titles_of(small[0]), slots_from=len(FIRST))


def shrunk(row: Sequence[Pixels], largest: int) -> list[Pixels]:
    """The panels of `picture_row`, made smaller if they have a side of more than `largest` pixels."""
    height, width = shape_within(row[0].shape[:2], largest)
    if (height, width) == row[0].shape[:2]:
        return list(row)
    # The colours of owners stand for slots, so they are not mixed.
    ways = [Image.Resampling.NEAREST if n == OWNERS else Image.Resampling.BICUBIC for n in range(len(row))]
    return [
        np.asarray(Image.fromarray(panel).resize((width, height), way))
        for panel, way in zip(row, ways, strict=True)
    ]


def shape_within(shape: Sequence[int], largest: int) -> tuple[int, int]:
    """Height and width of a picture, made smaller if one of them is more than `largest`."""
    height, width = shape
    factor = min(1.0, largest / max(height, width))
    return max(1, round(height * factor)), max(1, round(width * factor))
