"""What the page is shown: a board, the sliders of a slot, an animation, the steps of an inference, another scene."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from emorl.data.base import Array
from emorl.explorer.board import Board
from emorl.explorer.meaning import Study, most_active, traversal, varied
from emorl.explorer.messages import as_bytes, write_reply
from emorl.objects import LEAST_SHARE
from emorl.plots.files import as_gif
from emorl.types import Decomposition

SLIDERS = 8  # dimensions of a slot that get one
FRAMES = 16  # of a traversal, there and back
GIF_SIDE = 256  # of a saved animation, about


def board_reply(
    kind: str,
    board: Board,
    changed: Iterable[int],
    about: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> bytes:
    """All masks, the picture, and what the slots that have `changed` look like."""
    slots, changed = range(len(board.slots)), list(changed)
    places = [board.place(k) for k in slots]
    owner = board.masks.argmax(dim=0)
    head = {
        **(about or {}),
        "changed": changed,
        "places": [None if p is None else [p.down, p.right, p.size, p.can_turn] for p in places],
        "area": [float((owner == k).float().mean()) for k in slots],
        "explained": board.explained(),
        "empty": are_empty(board),
        "removed": sorted(board.now.removed),
        "edited": {
            k: [round(value, 5) for value in board.slots[k].tolist()]
            for k in slots
            if not torch.equal(board.slots[k], board.first.slots[k])
        },
        "can_undo": bool(board.done),
        "can_redo": bool(board.undone),
        "turned": {k: turn.angle for k, turn in board.now.turns.items()},
        "is_held": board.is_held,
        "error": float((board.picture - board.image).square().mean()),
    }
    pictures = {"masks": as_bytes(board.masks), "result": as_bytes(board.picture)}
    if changed:
        pictures["looks"] = as_bytes(board.colours[changed])
    return write_reply(kind, head, {**(arrays or {}), **pictures})


def are_empty(board: Board) -> list[bool]:
    """Whether each slot shows next to nothing."""
    return [bool(mask.mean() < LEAST_SHARE / 2) for mask in board.masks]


def donor_reply(board: Board, index: int) -> bytes:
    """Another scene, whose slots can be copied."""
    arrays = {"picture": board.image, "masks": board.masks, "looks": board.colours}
    head = {"index": index, "empty": are_empty(board)}
    return write_reply("donor", head, {name: as_bytes(array) for name, array in arrays.items()})


def sliders_reply(board: Board, k: int, known: Study | None) -> bytes:
    """The most active dimensions of slot `k`, with ranges, values and labels; none before anything is known."""
    if known is None:
        return write_reply("sliders", {"slot": k, "rows": None})
    rows = [
        {
            "dim": d,
            "label": known.labels[d],
            "low": float(known.ranges[0, d]),
            "high": float(known.ranges[1, d]),
            "value": float(board.slots[k, d]),
            "inferred": float(board.first.slots[k, d]),
            "activeness": value,
        }
        for d, value in varied(most_active(board, k, known.ranges), known.labels, SLIDERS)
    ]
    return write_reply("sliders", {"slot": k, "rows": rows})


def animation_reply(board: Board, k: int, d: int, known: Study, *, as_file: bool) -> bytes:
    """Dimension `d` of slot `k` goes through its range: pictures, or a GIF file that goes there and back."""
    pictures = as_bytes(traversal(board, k, d, known.ranges, FRAMES))
    head = {"slot": k, "dim": d}
    if not as_file:
        return write_reply("traversal", head, {"frames": pictures})
    scale = max(1, round(GIF_SIDE / pictures.shape[1]))
    large = [Image.fromarray(np.kron(one, np.ones((scale, scale, 1), np.uint8))) for one in pictures]
    return write_reply("gif", head, {"gif": as_gif([*large, *large[-2:0:-1]])})


def trace_reply(steps: tuple[Decomposition, ...], image: Tensor) -> bytes:
    """Inference of `image` (3, H, W) step by step: attention of each layer where there is one, then refinements."""
    arrays: dict[str, Any] = {}
    for n, step in enumerate(steps):
        arrays[f"result{n}"] = as_bytes(step.image[0])
        arrays[f"masks{n}"] = as_bytes(step.masks[0])
        if step.attention is not None:
            attention = step.attention[0]
            arrays[f"attention{n}"] = as_bytes(attention / attention.amax().clamp_min(1e-9))
    errors = [float((step.image[0] - image).square().mean()) for step in steps]
    return write_reply("trace", {"steps": list(names_of_steps(steps)), "errors": errors}, arrays)


def names_of_steps(steps: tuple[Decomposition, ...]) -> Iterator[str]:
    """Steps that attend are layers, those after them refinements."""
    layers = sum(1 for step in steps if step.attention is not None)
    for n, step in enumerate(steps):
        if len(steps) == 1:
            yield "answer"
        elif step.attention is not None:
            yield f"layer {n + 1}"
        else:
            yield f"refinement {n + 1 - layers}" if layers else f"step {n + 1}"
