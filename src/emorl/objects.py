"""What slots hold, in numbers: where each object is, how large, of which colour, and how well the picture is explained.

A slot owns the pixels of which its mask is more than half. What is blacker or plainer than any object may be owned by
nobody, and a slot that owns hardly anything is no object.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Table = dict[str, Array]  # column -> one value for each object

NOBODY = -1  # the owner of a pixel that no slot has more than half of
MAJORITY = 0.5
LEAST_SHARE = 0.01  # of the picture: what owns less is no object
PLAIN = 0.02**2  # variance below which a picture is of one colour: errors of 5 of 255 are not seen
WELL_EXPLAINED = 0.5  # share of a picture below which its decomposition is not to be trusted


def owners(masks: Array) -> Array:
    """The slot that owns each pixel, (..., H, W) integers, NOBODY where none does; `masks` are (..., K, H, W)."""
    first = masks.argmax(axis=-3)
    return np.where(masks.max(axis=-3) > MAJORITY, first, NOBODY)


def object_table(masks: Array, picture: Array) -> Table:
    """The objects of one picture, a row for each slot that owns at least LEAST_SHARE of it, in the order of slots.

    Takes masks (K, H, W) and the picture (3, H, W) in [0, 1] of the same size. Columns:

    - slot: its number.
    - area, share: pixels that it owns, and their share of the picture.
    - left, top, right, bottom: the smallest box around them, in pixels; right and bottom are the first ones outside.
    - x, y: their centre, in pixels from the left upper corner, where the first pixel's centre is 0.5.
    - red, green, blue: mean colour of the picture there, in [0, 1].
    - background: whether it owns more than half of the pixels along the picture's edge: a guess, from its place alone.
    """
    owner = owners(masks)
    edge = np.concatenate([owner[0], owner[-1], owner[1:-1, 0], owner[1:-1, -1]])
    rows = [
        object_row(slot, owner == slot, picture) | {"background": np.mean(edge == slot) > 0.5}
        for slot in range(len(masks))
        if np.mean(owner == slot) >= LEAST_SHARE
    ]
    return {name: np.array([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()}


COLUMNS: dict[str, type] = {
    "slot": np.int64,
    "area": np.int64,
    "share": np.float64,
    **dict.fromkeys(("left", "top", "right", "bottom"), np.int64),
    **dict.fromkeys(("x", "y", "red", "green", "blue"), np.float64),
    "background": np.bool_,
}


def object_row(slot: int, is_own: Array, picture: Array) -> dict[str, Any]:
    """The numbers of one slot, whose pixels `is_own` (H, W) marks."""
    rows, columns = is_own.nonzero()
    red, green, blue = picture[:, is_own].mean(axis=1)
    return {
        "slot": slot,
        "area": len(rows),
        "share": len(rows) / is_own.size,
        "left": columns.min(),
        "top": rows.min(),
        "right": columns.max() + 1,
        "bottom": rows.max() + 1,
        "x": columns.mean() + 0.5,
        "y": rows.mean() + 0.5,
        "red": red,
        "green": green,
        "blue": blue,
    }


def moved(table: Table, *, left: float, top: float, across: float, down: float) -> Table:
    """The same objects in pixels of another picture: this one's first pixel is at (`left`, `top`) of it, and each of
    its pixels is `across` wide and `down` high there. Shares and colours stay.
    """
    found = dict(table)
    for name in ("left", "right", "x"):
        found[name] = left + table[name] * across
    for name in ("top", "bottom", "y"):
        found[name] = top + table[name] * down
    found["area"] = table["area"] * across * down
    for name in ("area", "left", "top", "right", "bottom"):
        found[name] = found[name].round().astype(np.int64)
    return found


def batch_table(masks: Array, pictures: Array, slots: Array, seen: Array | None = None) -> Table:
    """The objects of a batch: `object_table` of each picture below one another.

    Takes masks (B, K, H, W), pictures (B, 3, H, W) and slots (B, K, D). First comes a column `image`, the number of the
    picture; last come `latent_0`, `latent_1` and so on, the D numbers of the slot. With `seen` (B, 4), left, top, right
    and bottom of what the masks cover in the pixels of another picture, places and areas are in these pixels.
    """
    height, width = masks.shape[-2:]
    tables: list[Table] = []
    latents = [slots[:0, 0]]  # is empty, so that there is something to join in an empty batch
    for number in range(len(masks)):
        table = object_table(masks[number], pictures[number])
        if seen is not None:
            left, top, right, bottom = seen[number].tolist()
            across, down = (right - left) / width, (bottom - top) / height
            table = moved(table, left=left, top=top, across=across, down=down)
        latents.append(slots[number][table["slot"]])
        tables.append({"image": np.full_like(table["slot"], number), **table})
    whole = {
        name: np.concatenate([np.empty(0, dtype=kind), *(table[name] for table in tables)])
        for name, kind in {"image": np.int64, **COLUMNS}.items()
    }
    return whole | {f"latent_{d}": column for d, column in enumerate(np.concatenate(latents).T)}


def as_frame(table: Table) -> Any:
    """The table as a pandas DataFrame; as it is where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table)


def explained_share(picture: Array, rebuilt: Array) -> float:
    """How much of a picture (3, H, W) its reconstruction explains: 1 is all, 0 no more than one colour would.

    That is 1 - error / variance; a picture of one colour has no variance, and is explained if its colour is met.
    """
    error = float(np.square(picture - rebuilt).mean())
    variance = float(picture.reshape(3, -1).var(axis=1).mean())
    return min(1.0, max(0.0, 1 - error / max(variance, PLAIN)))
