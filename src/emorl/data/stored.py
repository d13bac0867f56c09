"""Stored scenes: a folder of .npy files beside a meta.json, of which every value is checked before it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import numpy as np

from emorl.data.base import Arrays, DatasetInfo, FactorKind, SceneDataset
from emorl.data.rows import WAY_OUT, Rows, damaged
from emorl.errors import Unreadable, UserError
from emorl.files import read_json

META = "meta.json"
REQUIRED = {"name": str, "image_size": int, "max_objects": int, "factors": dict}
OPTIONAL = {"description": str, "origin": str, "has_masks": bool, "title": str, "train_size": int}
FIRST_ARRAYS = {"image", "segmentation"}  # which every scene has, besides its factors
MOST_OBJECTS = 2**16


class StoredScenes(SceneDataset):
    """Reads what `store` wrote. Raises UserError for other or damaged files, when opened or when a scene is read."""

    def __init__(self, path: Path) -> None:
        self.info, self.length, names = read_meta(path)
        self.files = {name: Rows(path / f"{name}.npy") for name in names}
        for name, rows in self.files.items():
            if len(rows) != self.length:
                raise damaged(rows.path, f"it has {len(rows)} rows; meta.json says {self.length}")
            check_rows(name, rows, self.info)

    def __len__(self) -> int:
        return self.length

    def arrays(self, index: int) -> Arrays:
        arrays = {name: rows[index] for name, rows in self.files.items()}
        for name in ("segmentation", "segmentation_full"):
            if name in arrays and arrays[name].max() > self.info.max_objects:
                problem = (
                    f"scene {index} has object {arrays[name].max()}; {self.info.max_objects} is the most"
                )
                raise damaged(self.files[name].path, problem)
        return arrays


def check_rows(name: str, rows: Rows, info: DatasetInfo) -> None:
    """Raises UserError unless an array has the type and shape that its name requires."""
    side, dtype, shape = info.image_size, rows.dtype, rows.shape
    match name:
        case "image":
            is_right, rule = dtype == np.uint8 and shape == (side, side, 3), f"uint8 ({side}, {side}, 3)"
        case "segmentation":
            is_right, rule = (
                dtype.kind == "u" and shape == (side, side),
                f"unsigned integers ({side}, {side})",
            )
        case "segmentation_full":
            is_right, rule = dtype == np.uint8 and len(shape) == 2, "uint8 (height, width)"
        case _ if name in info.factors:
            is_right = (
                dtype in (np.float32, np.float64) and shape[:1] == (info.max_objects,) and len(shape) < 3
            )
            rule = f"floats ({info.max_objects}) or ({info.max_objects}, n)"
        case _:
            is_right, rule = dtype.kind in "biuf", "numbers"
    if not is_right:
        raise damaged(rows.path, f"a scene of it is {dtype} {shape}, not {rule}")


def read_meta(folder: Path) -> tuple[DatasetInfo, int, list[str]]:
    """Returns info, number of scenes and names of the arrays of a folder of stored scenes, from its meta.json."""
    path = folder / META
    if not os.path.lexists(path):
        raise UserError(
            f"{folder} holds no stored scenes: {path} is missing. Make them with `emorl data store NAME --out FOLDER`."
        )
    try:
        meta = read_json(path)
        info = read_info(typed(meta, "info", dict))
        names = typed(meta, "arrays", list)
        if not all(isinstance(name, str) and name.isidentifier() for name in names):
            raise ValueError("its arrays have names that are not words")
        missing = (FIRST_ARRAYS | set(info.factors)) - set(names)
        if missing:
            raise ValueError(f"it lists no array {sorted(missing)[0]!r}")
        return info, at_least(typed(meta, "count", int), 1, "count"), names
    except Unreadable:
        raise
    except (ValueError, UserError) as error:
        raise UserError(f"{path} is damaged: {str(error).removesuffix('.')}; {WAY_OUT}.") from None


def read_info(values: dict[str, Any]) -> DatasetInfo:
    """Returns the `info` part of meta.json as DatasetInfo; raises ValueError for unknown or wrong values."""
    unknown = set(values) - set(REQUIRED) - set(OPTIONAL)
    if unknown:
        raise ValueError(f"its info has {sorted(unknown)[0]!r}, which nothing is known of")
    found = {name: typed(values, name, kind) for name, kind in REQUIRED.items()}
    found |= {name: typed(values, name, kind) for name, kind in OPTIONAL.items() if name in values}
    at_least(found["image_size"], 1, "image_size")
    at_least(found.get("train_size", 1), 1, "train_size")
    if at_least(found["max_objects"], 0, "max_objects") > MOST_OBJECTS:
        raise ValueError(f"max_objects is {found['max_objects']}; {MOST_OBJECTS} are the most")
    for name, kind in found["factors"].items():
        if not name.isidentifier() or name in FIRST_ARRAYS or kind not in get_args(FactorKind):
            raise ValueError(f"its factor {name!r} is {kind!r}, not one of {', '.join(get_args(FactorKind))}")
    return DatasetInfo(**found)


def typed(values: dict[str, Any], name: str, kind: type) -> Any:
    """Returns `values[name]`; raises ValueError if it is missing or not exactly of type `kind`."""
    if name not in values:
        raise ValueError(f"it has no {name!r}")
    if type(values[name]) is not kind:  # not isinstance, which takes True for an int
        raise ValueError(f"its {name!r} is of type {type(values[name]).__name__}, not {kind.__name__}")
    return values[name]


def at_least(value: int, minimum: int, name: str) -> int:
    """Returns `value`; raises ValueError with the `name` of the setting if it is below `minimum`."""
    if value < minimum:
        raise ValueError(f"its {name!r} is {value}, and must be at least {minimum}")
    return value
