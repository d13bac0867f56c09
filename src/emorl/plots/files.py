"""Pictures and charts as files, each marked as ours and written at once or not at all; and inside pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from emorl.errors import UserError
from emorl.files import MARK, cause, check_output, make_directory, write_bytes
from emorl.panels import Panels
from emorl.plots.style import Chart, without_font_warnings

KINDS = ("", "png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff")  # suffixes that chart files may have
FRAME = 90  # milliseconds of an animation
CLEAR = 255  # the transparent colour of a GIF
LARGE = 120_000  # bytes of a PNG above which WebP takes its place: photographs need some loss


def stacked(panels: Sequence[Panels]) -> Image.Image:
    """Panels below one another, on white."""
    pictures = [one.drawn() for one in panels]
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


def save_picture(picture: Image.Image | Panels, path: Path) -> None:
    """Writes an image file, at once or not at all, and the folder it belongs in. The file has MARK, if it can."""
    picture = picture.drawn() if isinstance(picture, Panels) else picture
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


def check_chart_file(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Raises UserError if a chart cannot be written there: because of its suffix, or what is there already."""
    if path.suffix.lower().removeprefix(".") not in KINDS and not path.is_dir():
        raise UserError(
            f"Cannot write {path}: {path.suffix!r} is no kind of chart; name it .png, .svg or .pdf."
        )
    check_output(path, inputs=inputs)


def save_chart(chart: Chart, path: Path) -> None:
    """Writes PNG, SVG or PDF, as the name says, at once or not at all. The file has MARK, if it can."""
    kind, buffer = path.suffix.lower().removeprefix("."), io.BytesIO()
    place = {"png": "Software", "svg": "Creator", "pdf": "Creator"}.get(kind)  # where MARK stands
    try:
        with without_font_warnings():
            chart.savefig(buffer, format=kind or "png", metadata={place: MARK} if place else None)
    except (OSError, ValueError) as error:  # ValueError: a suffix that names no format
        raise UserError(f"Cannot write {path}: {cause(error)}.") from None
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


def data_address(image: Image.Image) -> str:
    """An image as a data: address."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    if buffer.tell() <= LARGE:
        return address("image/png", buffer.getvalue())
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=88)
    return address("image/webp", buffer.getvalue())


def address(kind: str, content: bytes) -> str:
    """Content as a data: address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
