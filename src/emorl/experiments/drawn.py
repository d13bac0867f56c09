"""What the documents' pictures were drawn from: each file holds a digest of its result and its weights.

So a picture that was left behind when a result or the released weights changed can be told from one that was not.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS
from emorl.experiments.results import Result, digest, run_label
from emorl.files import make_directory, write_bytes
from emorl.runs.run import Run, released

PICTURES = Path("docs") / "images"
OTHER_NAMES = {"home.gif": "zoo"}  # pictures that are not called after their experiment
EARLIER = "*This picture is of an earlier measurement.*"
KEY = "emorl drawn from"
END_OF_PNG, END_OF_GIF = 12, 1  # bytes of the last chunk, and of the trailer


def experiment_of(picture: Path) -> str:
    """The experiment that a picture is called after; raises UserError if there is none."""
    named = [name for name in EXPERIMENTS if re.fullmatch(rf"{name}(-[\w-]+)?", picture.stem)]
    found = OTHER_NAMES.get(picture.name) or max(named, key=len, default=None)
    if found is None:
        raise UserError(f"{picture} is called after no experiment.")
    return found


def source_of(result: Result) -> str:
    """A digest of what was measured, whenever and wherever that was, and of the released weights behind it."""
    # Of weights, pictures show what they find and not how long they take, which changes from time to time.
    shown = [row for row in result.rows if row.label not in released()]
    rows = [[row.label, row.seed, row.scenes, row.steps, row.values, row.curve, row.config] for row in shown]
    return digest([rows, checksums(weights_behind(result))])[:16]


def source_of_weights(names: Iterable[str]) -> str:
    """The same for pictures that show weights and no result."""
    return digest(checksums(names))[:16]


def weights_behind(result: Result) -> list[str]:
    """The released weights that a result was measured with."""
    experiment = EXPERIMENTS[result.experiment]
    labels = {row.label for row in result.rows}
    found = labels & set(released())
    if experiment.from_weights:
        wanted = {one.label: one for one in experiment.runs("cpu")}
        behind = {run_label(label, wanted) for label in labels} - {None}
        found |= {name for label in behind if label and (name := wanted[label].weights)}
    return sorted(found)


def checksums(names: Iterable[str]) -> dict[str, str]:
    """The digest of each of these released weights, from its card."""
    return {name: Run.open(name).card["sha256"] for name in names}


def marked(picture: bytes, source: str) -> bytes:
    """A PNG or GIF with `source` in it, as the last of its comments."""
    text = f"{KEY}\0{source}".encode()
    if picture.startswith(b"\x89PNG"):
        chunk = b"tEXt" + text
        note = struct.pack(">I", len(text)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        return picture[:-END_OF_PNG] + note + picture[-END_OF_PNG:]
    return picture[:-END_OF_GIF] + b"\x21\xfe" + bytes([len(text)]) + text + b"\0" + picture[-END_OF_GIF:]


def mark_of(picture: bytes) -> str | None:
    """What a picture was drawn from, or None if it does not say."""
    found = re.findall(re.escape(KEY).encode() + rb"\0([0-9a-f]{16})", picture)
    return found[-1].decode() if found else None


def is_current(picture: Path, result: Result) -> bool:
    """Whether a picture was drawn from `result`, and from the weights that are released today."""
    return mark_of(picture.read_bytes()) == source_of(result)


def take(pictures: Iterable[Path], folder: Path, result: Result) -> None:
    """Puts pictures that were drawn from `result` into a folder; those that say what they were drawn from keep that."""
    make_directory(folder)
    source = source_of(result)
    for picture in pictures:
        content = picture.read_bytes()
        write_bytes(folder / picture.name, content if mark_of(content) else marked(content, source))
