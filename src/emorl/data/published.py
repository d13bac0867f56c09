"""The published files: DeepMind's multi-object records and the authors' .h5 files, decoded into scenes.

Every data set is a row of LAYOUTS; `convert` turns a file into a folder of stored scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

from emorl.data import sprites, tetrominoes
from emorl.data.base import Array, Arrays, DatasetInfo, FactorKind, padded
from emorl.data.tfrecord import parse_example, records
from emorl.data.writer import StoreWriter
from emorl.errors import UserError, nearest

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
    """How a published data set lies in its records."""

    image: tuple[int, int, int]  # height, width, channels
    entities: int  # masks per scene, background included
    background: int = 1  # how many of them, the first ones, are background
    masks_last: bool = False  # masks are (H, W, entities) instead of (entities, H, W)
    factors: Mapping[str, FactorKind] = field(default_factory=dict)
    crop: tuple[slice, slice] = (slice(None), slice(None))
    size: int | None = None  # side to resize the crop to
    objects: tuple[int, int] = (0, 255)  # least and most objects of a scene to keep


_CLEVR = Layout(
    (240, 320, 3), 11, factors=CLEVR, crop=(slice(29, 221), slice(64, 256)), size=96, objects=(3, 10)
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


def convert(
    path: Path,
    name: str,
    out: Path,
    *,
    limit: int | None = None,
    group: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Stores the scenes of a published file, `limit` of them at most. Returns how many there are.

    An .h5 file may have several groups (train, val, test); `group` says which, if there is a choice.
    """
    if name not in LAYOUTS:
        raise UserError(f"There is no published data set {name!r}{nearest(name, LAYOUTS)}")
    layout = LAYOUTS[name]
    if path.suffix in (".h5", ".hdf5"):
        layout, found = open_h5(path, layout, group)
    else:
        found = scenes_of(path, layout)
    with StoreWriter(out) as writer, closing(found) as scenes:
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
    return DatasetInfo(
        name=name,
        image_size=layout.size or layout.image[0],
        max_objects=layout.entities - layout.background,
        factors=layout.factors,
        description=f"published {name} scenes",
        origin=path.name,
    )


def scenes_of(path: Path, layout: Layout) -> Generator[tuple[Arrays, float]]:
    """Yields the scenes of a file that the layout wants, and how much of the file has been read."""
    for number, (payload, share) in enumerate(records(path)):
        try:
            features = parse_example(payload)
            if layout.objects[0] <= count_objects(features, layout) <= layout.objects[1]:
                yield decode(features, layout), share
        except ValueError as error:
            raise UserError(f"{path}, record {number}: {error}.") from None


def count_objects(features: Mapping[str, Array], layout: Layout) -> int:
    """What the record says; objects that a crop leaves out are counted here, as the published filters do."""
    if "visibility" in layout.factors:
        return int(feature(features, "visibility", (layout.entities,))[layout.background :].sum())
    masks = mask_stack(features, layout)
    return int(masks[layout.background :].any(axis=(1, 2)).sum())


def decode(features: Mapping[str, Array], layout: Layout) -> Arrays:
    """Turns the features of a record into a scene. Objects without a visible pixel lose their row."""
    image = feature(features, "image", layout.image)
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
        values = feature(features, name, (layout.entities, -1)).astype(np.float32)
        rows = padded(values[objects], layout.entities - layout.background)
        arrays[name] = rows[:, 0] if values.shape[1] == 1 else rows
    return arrays


def mask_stack(features: Mapping[str, Array], layout: Layout) -> Array:
    """The masks of a record, (entities, H, W)."""
    height, width, _ = layout.image
    if layout.masks_last:
        return feature(features, "mask", (height, width, layout.entities)).transpose(2, 0, 1)
    return feature(features, "mask", (layout.entities, height, width))


def feature(features: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Returns a feature in the shape that the layout gives it."""
    if name not in features:
        raise ValueError(f"it has no feature {name!r}: it seems to be of another data set")
    try:
        return features[name].reshape(shape)
    except ValueError:
        wanted = " x ".join(map(str, shape))
        raise ValueError(
            f"its feature {name!r} has {features[name].size} values, not {wanted}: it seems to be of another data set"
        ) from None


def open_h5(path: Path, layout: Layout, group: str | None) -> tuple[Layout, Generator[tuple[Arrays, float]]]:
    """The authors' files: GROUP/imgs, GROUP/masks and, for CLEVR alone, GROUP/factors."""
    import h5py  # here, because importing it takes a while

    try:
        file = h5py.File(path, "r")
        groups = [name for name, content in file.items() if isinstance(content, h5py.Group)]
    except (OSError, RuntimeError) as error:
        raise UserError(f"Cannot read {path}: {error}.") from None
    if group is None and len(groups) == 1:
        group = groups[0]
    if group not in groups:
        choice = f"has no group {group!r}" if group else "has several groups; choose one with --group"
        raise UserError(f"{path} {choice}: {', '.join(groups) or 'none'}.")
    content = file[group]
    missing = {"imgs", "masks"} - set(content)
    if missing:
        raise UserError(f"{path} has no {group}/{' and no '.join(sorted(missing))}.")
    has_factors = "factors" in content and layout.factors == CLEVR
    layout = replace(layout, masks_last=False, factors=CLEVR if has_factors else {})

    def scenes() -> Generator[tuple[Arrays, float]]:
        with file:
            for number in range(len(content["imgs"])):
                try:
                    features = {"image": content["imgs"][number], "mask": content["masks"][number][..., :1]}
                    if has_factors:
                        features |= dict(zip(CLEVR, content["factors"][number].T, strict=True))
                    if layout.objects[0] <= count_objects(features, layout) <= layout.objects[1]:
                        yield decode(features, layout), (number + 1) / len(content["imgs"])
                except (ValueError, OSError) as error:
                    raise UserError(f"{path}, scene {number} of {group}: {error}.") from None

    return layout, scenes()
