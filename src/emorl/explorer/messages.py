"""What goes over the socket: requests, each field of which is checked, and replies with pictures in them.

A request is JSON: {"kind": ..., and the fields that REQUESTS lists for it}; a picture that was dropped in is its bytes.
A reply is the length of its head in four bytes, the head as JSON, and then the bytes of the arrays that the head names.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from emorl.data.base import Array
from emorl.errors import UserError, nearest

MOST_TEXT = 64 * 1024  # characters of a request
MOST_SLOTS, MOST_STEPS = 24, 24
LARGEST_VALUE = 1e4  # of a number of a slot

Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Request:
    """A checked request; `content` is a picture that was dropped in."""

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    content: bytes = b""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def replaces(self) -> tuple[Any, ...] | None:
        """What a later request with the same key makes superfluous; None if each one counts."""
        if self.kind in ("move", "set") and self["stroke"] is not None:
            return self.kind, self["slot"], self.values.get("dim"), self["stroke"]
        return (self.kind,) if self.kind in ("sliders", "open") else None


def whole(least: int, most: int) -> Check:
    """A check for whole numbers."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise UserError(f"{name} must be a whole number from {least} to {most}.")
        return value

    return check


def number(least: float, most: float) -> Check:
    """A check for numbers."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or not math.isfinite(value):
            raise UserError(f"{name} must be a number from {least:g} to {most:g}.")
        return float(value)

    return check


def text(name: str, value: Any) -> str:
    """A check for names."""
    if not isinstance(value, str) or len(value) > 300:
        raise UserError(f"{name} must be a text of at most 300 letters.")
    return value


def truth(name: str, value: Any) -> bool:
    """A check for yes and no."""
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false.")
    return value


def optional(inner: Check) -> Check:
    """A check for what may be left out."""
    return lambda name, value: None if value is None else inner(name, value)


def list_of(inner: Check, most: int) -> Check:
    """A check for lists."""

    def check(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise UserError(f"{name} must be a list of at most {most}.")
        return [inner(name, one) for one in value]

    return check


def edits(name: str, value: Any) -> dict[int, list[float]]:
    """A check for edited slots: an object from the number of a slot to its numbers."""
    if not isinstance(value, dict) or len(value) > MOST_SLOTS:
        raise UserError(f"{name} must be an object of at most {MOST_SLOTS} slots.")
    numbers = list_of(number(-LARGEST_VALUE, LARGEST_VALUE), 1024)
    if not all(isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 4 for key in value):
        raise UserError(f"{name} must have numbers of slots as keys.")
    return {int(key): numbers(name, one) for key, one in value.items()}


SLOT = whole(0, MOST_SLOTS - 1)
STROKE = optional(whole(0, 2**53))
SEED = whole(0, 2**32 - 1)
INDEX = whole(0, 10**8)

REQUESTS: dict[str, dict[str, Check]] = {
    "hello": {},
    "open": {
        "model": text,
        "data": optional(text),
        "index": INDEX,
        "slots": optional(whole(1, MOST_SLOTS)),
        "steps": optional(whole(0, MOST_STEPS)),
        "seed": SEED,
        "upload": optional(truth),
    },
    "restore": {"edits": edits, "removed": list_of(SLOT, MOST_SLOTS)},
    "move": {
        "slot": SLOT,
        "down": number(-4, 4),
        "right": number(-4, 4),
        "grow": number(-3, 3),
        "turn": number(-1000, 1000),
        "stroke": STROKE,
    },
    "set": {
        "slot": SLOT,
        "dim": whole(0, 4095),
        "value": number(-LARGEST_VALUE, LARGEST_VALUE),
        "stroke": STROKE,
    },
    "remove": {"slot": SLOT, "removed": truth},
    "swap": {"slot": SLOT, "other": SLOT},
    "undo": {},
    "redo": {},
    "reset": {},
    "sliders": {"slot": SLOT},
    "traverse": {"slot": SLOT, "dim": whole(0, 4095), "gif": truth},
    "trace": {},
    "donor": {"index": INDEX},
    "copy": {"from": SLOT, "slot": SLOT},
}


def read_request(raw: str) -> Request:
    """Returns a request, or raises UserError for anything that is none."""
    if len(raw) > MOST_TEXT:
        raise UserError(f"A request has at most {MOST_TEXT} letters.")
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        raise UserError("A request must be JSON.") from None
    kind = message.get("kind") if isinstance(message, dict) else None
    if not isinstance(kind, str) or kind not in REQUESTS:
        raise UserError(f"There is no request {str(kind)[:40]!r}{nearest(str(kind)[:40], REQUESTS)}")
    fields = REQUESTS[kind]
    if unknown := message.keys() - fields.keys() - {"kind"}:
        raise UserError(f"A request {kind!r} has no field {str(min(unknown))[:40]!r}.")
    return Request(kind, {name: check(name, message.get(name)) for name, check in fields.items()})


def write_reply(
    kind: str, head: Mapping[str, Any], arrays: Mapping[str, Array | bytes] | None = None
) -> bytes:
    """Returns a reply as bytes; arrays are of 8 bits."""
    arrays = arrays or {}
    shapes = {
        name: [len(array)] if isinstance(array, bytes) else list(array.shape)
        for name, array in arrays.items()
    }
    words = json.dumps({"kind": kind, **head, "arrays": shapes}, allow_nan=False).encode()
    bodies = [array if isinstance(array, bytes) else array.tobytes() for array in arrays.values()]
    return b"".join([struct.pack("<I", len(words)), words, *bodies])


def read_reply(raw: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns the head and the arrays of a reply: what the page does, for clients in Python."""
    (length,) = struct.unpack("<I", raw[:4])
    head, arrays, at = json.loads(raw[4 : 4 + length]), {}, 4 + length
    for name, shape in head["arrays"].items():
        count = math.prod(shape)
        arrays[name] = np.frombuffer(raw, np.uint8, count, at).reshape(shape)
        at += count
    return head, arrays


def as_bytes(pictures: Tensor) -> Array:
    """Pictures (..., 3, H, W) or masks (..., 1, H, W) in [0, 1] as 8-bit (..., H, W, channels)."""
    eight = (pictures.detach().clamp(0, 1) * 255).round().byte()
    found: Array = eight.movedim(-3, -1).contiguous().cpu().numpy()
    return found
