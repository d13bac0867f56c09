"""Panels: small pictures in rows and columns with their names, for a file or for a page; PNG and GIF files."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from emorl.errors import UserError
from emorl.files import MARK, check_output, make_directory, write_bytes

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (H, W, 3)

PANEL = 96  # least side of a panel in a file, in pixels: small images are enlarged by a whole factor
GAP = 4
TEXT = 13  # height of letters
INK = (92, 98, 108)
FRAME = 90  # milliseconds of an animation
CLEAR = 255  # the transparent colour of a GIF


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


def grid(rows: Sequence[Sequence[Pixels | None]]) -> Image.Image:
    """Lays panels out on white, one list per row; all panels have the same size."""
    return Panels(rows).drawn()


def stacked(pictures: Sequence[Image.Image]) -> Image.Image:
    """Pictures below one another, on white."""
    size = (max(one.width for one in pictures), sum(one.height for one in pictures))
    whole, top = Image.new("RGB", size, "white"), 0
    for one in pictures:
        whole.paste(one, (0, top))
        top += one.height
    return whole


def check_picture_file(path: Path) -> None:
    """Raises UserError if an image cannot be written there: because of its suffix, or what is there already."""
    if path.suffix.lower() not in Image.registered_extensions() and not path.is_dir():
        raise UserError(f"Cannot write {path}: {path.suffix!r} is no kind of image; name it .png.")
    check_output(path)


def save_picture(picture: Image.Image, path: Path) -> None:
    """Writes an image file, at once or not at all, and the folder it belongs in. The file has MARK, if it can."""
    kind = Image.registered_extensions().get(path.suffix.lower(), path.suffix)
    text, buffer = PngInfo(), io.BytesIO()
    text.add_text("Software", MARK)
    options: dict[str, Any] = {"pnginfo": text} if kind == "PNG" else {"comment": MARK.encode()}
    try:
        picture.save(buffer, kind, **options)
    except (OSError, ValueError, KeyError) as error:  # KeyError: a suffix that names no image format
        problem = f"{path.suffix!r} is no kind of image" if isinstance(error, KeyError) else str(error)
        raise UserError(f"Cannot write {path}: {problem}.") from None
    make_directory(path.parent)
    write_bytes(path, buffer.getvalue())


def as_gif(frames: Sequence[Image.Image]) -> bytes:
    """An endless animation; what is transparent in a frame stays so."""
    # One palette for all frames, or colours flicker.
    colors = in_a_row([frame.convert("RGB") for frame in frames]).quantize(255, dither=Image.Dither.NONE)
    still = []
    for frame in frames:
        indexed = frame.convert("RGB").quantize(palette=colors, dither=Image.Dither.NONE)
        if frame.mode == "RGBA":
            indexed.paste(CLEAR, mask=frame.getchannel("A").point(lambda alpha: 255 * (alpha == 0)))
        still.append(indexed)
    buffer = io.BytesIO()
    options: Any = {"transparency": CLEAR} if frames[0].mode == "RGBA" else {}
    still[0].save(
        buffer, "GIF", save_all=True, append_images=still[1:], duration=FRAME, loop=0, comment=MARK, **options
    )
    return buffer.getvalue()


def in_a_row(pictures: Sequence[Image.Image]) -> Image.Image:
    """Pictures of one size in a row."""
    width, height = pictures[0].size
    whole = Image.new("RGB", (width * len(pictures), height))
    for number, one in enumerate(pictures):
        whole.paste(one, (number * width, 0))
    return whole
