"""How the published data sets are stored in their files: every data set is an entry of LAYOUTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from emorl.data import sprites, tetrominoes
from emorl.data.base import FactorKind

CLEVR: dict[str, FactorKind] = {
    "x": "continuous",
    "y": "continuous",
    "z": "continuous",
    "rotation": "continuous",
    "size": "discrete",
    "material": "discrete",
    "shape": "discrete",
    "color": "discrete",
    "visibility": "discrete",
}


@dataclass(frozen=True)
class Layout:
    """How a published data set is stored in its records."""

    image: tuple[int, int, int]  # height, width, channels
    entities: int  # masks per scene, background included
    background: int = 1  # how many of them, the first ones, are background
    masks_last: bool = False  # masks are (H, W, entities) instead of (entities, H, W)
    factors: Mapping[str, FactorKind] = field(default_factory=dict)
    colors: int = 3  # numbers of an object's "color": RGB, or a code; every other factor is one number
    crop: tuple[slice, slice] = (slice(None), slice(None))
    size: int | None = None  # side to resize the crop to
    objects: tuple[int, int] = (0, 255)  # least and most objects of a scene to keep


_CLEVR = Layout(
    (240, 320, 3),
    11,
    factors=CLEVR,
    colors=1,
    crop=(slice(29, 221), slice(64, 256)),
    size=96,
    objects=(3, 10),
)
_ROOM = Layout((64, 64, 3), 7, background=4)

LAYOUTS: dict[str, Layout] = {
    "tetrominoes": Layout((35, 35, 3), 4, factors=tetrominoes.INFO.factors),
    "multi-dsprites": Layout((64, 64, 3), 6, masks_last=True, factors=sprites.FACTORS),
    "multi-dsprites-binarized": Layout((64, 64, 1), 4, masks_last=True, factors=sprites.FACTORS),
    "multi-dsprites-colored": Layout((64, 64, 3), 5, masks_last=True, factors=sprites.FACTORS),
    "clevr": _CLEVR,
    "clevr6": replace(_CLEVR, objects=(3, 6)),
    "clevr10": replace(_CLEVR, objects=(7, 10)),
    "objects-room": _ROOM,
    "objects-room-six-objects": replace(_ROOM, entities=10),
    "objects-room-empty-room": replace(_ROOM, entities=4),
    "objects-room-identical-color": replace(_ROOM, entities=10),
}


def largest_record(layout: Layout) -> int:
    """Returns an upper bound of the bytes of a record, which takes three for each one-byte value."""
    height, width, channels = layout.image
    values = height * width * (channels + layout.entities)
    return 4 * values + 64 * layout.entities * (len(layout.factors) + 1) + 2**16
