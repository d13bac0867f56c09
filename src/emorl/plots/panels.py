"""Files of panels: grids of pictures, PNG and GIF."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from emorl.errors import UserError
from emorl.files import MARK, check_output, make_directory, write_bytes
from emorl.panels import GAP, Panels, Pixels, palette

__all__ = [
    "GAP",
    "Panels",
    "Pixels",
    "as_gif",
    "check_picture_file",
    "grid",
    "palette",
    "save_picture",
    "stacked",
]

FRAME = 90  # milliseconds of an animation
CLEAR = 255  # the transparent colour of a GIF


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


def check_picture_file(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Raises UserError if an image cannot be written there: because of its suffix, or what is there already."""
    if path.suffix.lower() not in Image.registered_extensions() and not path.is_dir():
        raise UserError(f"Cannot write {path}: {path.suffix!r} is no kind of image; name it .png.")
    check_output(path, inputs=inputs)


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
