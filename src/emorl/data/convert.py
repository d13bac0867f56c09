"""The published files: DeepMind's multi-object records and the authors' .h5 files, decoded into scenes.

`convert` turns a file into a folder of stored scenes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from emorl.data.base import Array, Arrays, DatasetInfo, padded
from emorl.data.h5 import H5Group
from emorl.data.layouts import CLEVR, LAYOUTS, Layout, largest_record
from emorl.data.storing import StoreWriter
from emorl.data.tfrecord import parse_example, records
from emorl.errors import UserError, nearest
from emorl.files import open_regular
from emorl.types import Progress, silent


def convert(
    path: Path,
    name: str,
    out: Path,
    *,
    limit: int | None = None,
    group: str | None = None,
    progress: Progress = silent,
) -> int:
    """Stores the scenes of a published file, `limit` of them at most. Returns how many there are.

    An .h5 file may have several groups (train, val, test); `group` says which, if there is a choice.
    """
    if name not in LAYOUTS:
        raise UserError(f"There is no published data set {name!r}{nearest(name, LAYOUTS)}")
    layout = LAYOUTS[name]
    if path.suffix in (".h5", ".hdf5"):
        content = H5Group(path, group)
        layout = h5_layout(content, layout)
        found = h5_scenes(content, layout)
    else:
        open_regular(path).close()  # fails before an output folder is made
        found = record_scenes(path, layout)
    with closing(found) as scenes, StoreWriter(out) as writer:
        for scene, share in scenes:
            writer.add(scene)
            progress(len(writer), limit or round(len(writer) / max(share, 1e-9)))
            if len(writer) == limit:
                break
        if len(writer) == 0:
            raise UserError(f"{path} holds no scene with {layout.objects[0]} to {layout.objects[1]} objects.")
        writer.finish(info(name, layout, path))
        return len(writer)


def info(name: str, layout: Layout, path: Path) -> DatasetInfo:
    """Returns the DatasetInfo of the scenes converted from the file `path`."""
    return DatasetInfo(
        name=name,
        image_size=layout.size or layout.image[0],
        max_objects=layout.entities - layout.background,
        factors=layout.factors,
        description=f"published {name} scenes",
        origin=path.name,
    )


def record_scenes(path: Path, layout: Layout) -> Generator[tuple[Arrays, float]]:
    """Yields the scenes of a file that the layout wants, and how much of the file has been read."""
    for number, (payload, share) in enumerate(records(path, largest=largest_record(layout))):
        try:
            features = parse_example(payload)
            if layout.objects[0] <= count_objects(features, layout) <= layout.objects[1]:
                yield decode(features, layout), share
        except ValueError as error:
            raise UserError(f"{path}, record {number}: {error}.") from None


def count_objects(features: Mapping[str, Array], layout: Layout) -> int:
    """Returns the number of objects in a record, with those that the crop leaves out, as published filters count."""
    if "visibility" in layout.factors:
        visibility = finite(feature(features, "visibility", (layout.entities,)), "visibility")
        return int(visibility[layout.background :].sum())
    masks = mask_stack(features, layout)
    return int(masks[layout.background :].any(axis=(1, 2)).sum())


def decode(features: Mapping[str, Array], layout: Layout) -> Arrays:
    """Turns the features of a record into a scene. Objects without a visible pixel lose their row."""
    image = whole_numbers(features, "image", layout.image)
    owned = mask_stack(features, layout) > 0
    if not (owned.sum(axis=0, dtype=np.uint8) == 1).all():
        raise ValueError("its masks do not give every pixel to exactly one object")
    entities = owned[(slice(None), *layout.crop)].argmax(axis=0)
    image = np.repeat(image, 3, axis=2) if layout.image[2] == 1 else image
    image = image[layout.crop]

    present = np.unique(entities)
    objects = present[present >= layout.background]
    ids = np.zeros(layout.entities, dtype=np.uint8)
    ids[objects] = np.arange(1, len(objects) + 1)
    segmentation = ids[entities]
    arrays: Arrays = {"image": np.ascontiguousarray(image), "segmentation": segmentation}
    if layout.size is not None:
        side = (layout.size, layout.size)
        arrays = {
            "image": np.asarray(Image.fromarray(arrays["image"]).resize(side, Image.Resampling.BICUBIC)),
            "segmentation": np.asarray(Image.fromarray(segmentation).resize(side, Image.Resampling.NEAREST)),
            "segmentation_full": segmentation,
        }
    for name in layout.factors:
        width = layout.colors if name == "color" else 1
        values = feature(features, name, (layout.entities, width))
        rows = padded(finite(values[objects], name), layout.entities - layout.background)
        arrays[name] = rows[:, 0] if values.shape[1] == 1 else rows
    return arrays


def mask_stack(features: Mapping[str, Array], layout: Layout) -> Array:
    """Returns the masks of a record, (entities, H, W)."""
    height, width, _ = layout.image
    if layout.masks_last:
        return whole_numbers(features, "mask", (height, width, layout.entities)).transpose(2, 0, 1)
    return whole_numbers(features, "mask", (layout.entities, height, width))


def feature(features: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Returns a feature in the shape that the layout gives it."""
    if name not in features:
        raise ValueError(f"it has no feature {name!r}: it seems to be of another data set")
    if features[name].size != math.prod(shape):
        wanted = " x ".join(map(str, shape))
        raise ValueError(
            f"its feature {name!r} has {features[name].size} values, not {wanted}: it seems to be of another data set"
        )
    return features[name].reshape(shape)


def whole_numbers(features: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Returns a feature as bytes, whatever numbers it is stored as, if they are whole numbers from 0 to 255."""
    values = feature(features, name, shape)
    if values.dtype == np.uint8:
        return values
    with np.errstate(invalid="ignore"):  # NaN is cast to some number, and found by the comparison below
        as_bytes = values.astype(np.uint8) if values.dtype.kind in "biuf" else None
    if as_bytes is None or not (as_bytes == values).all():
        raise ValueError(
            f"its feature {name!r} holds {values.dtype} that are not whole numbers from 0 to 255"
        )
    return as_bytes


def finite(values: Array, name: str) -> Array:
    """Returns values as float32; raises ValueError if one is infinite or NaN."""
    if values.dtype.kind not in "biuf" or not (abs(values) <= np.finfo(np.float32).max).all():
        raise ValueError(f"its feature {name!r} holds what is not a finite number")
    return values.astype(np.float32)


def h5_scenes(content: H5Group, layout: Layout) -> Generator[tuple[Arrays, float]]:
    """Yields the scenes of a group that the layout wants, and how much of it has been read."""
    with closing(content):
        for number in range(len(content)):
            try:
                masks = content.row("masks", number)
                features = {
                    "image": content.row("imgs", number),
                    "mask": masks[..., :1] if masks.ndim else masks,
                }
                if layout.factors:
                    columns = content.row("factors", number).T
                    if len(columns) != len(layout.factors):
                        raise ValueError(f"its factors are {len(columns)} columns, not {len(layout.factors)}")
                    features |= dict(zip(layout.factors, columns, strict=True))
                if layout.objects[0] <= count_objects(features, layout) <= layout.objects[1]:
                    yield decode(features, layout), (number + 1) / len(content)
            except ValueError as error:
                raise UserError(f"{content.path}, scene {number} of {content.name}: {error}.") from None


def h5_layout(content: H5Group, layout: Layout) -> Layout:
    """Returns the layout of a data set in the authors' files, which have factors for CLEVR only, if at all."""
    has_factors = "factors" in content.sets and layout.factors == CLEVR
    return replace(layout, masks_last=False, factors=CLEVR if has_factors else {})
