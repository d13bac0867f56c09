"""Data sets: what the generated ones look like, beside what is known of the published ones, and a picture of each.

With `--files FOLDER` that holds tetrominoes_mini.tfrecords and clevr_blender_24.npz, these are measured likewise.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emorl.data import DATASETS
from emorl.data.base import Arrays
from emorl.data.convert import record_scenes
from emorl.data.layouts import LAYOUTS
from emorl.experiments.base import BLENDER, Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import columns
from emorl.plots.files import save_picture
from emorl.plots.scenes import scene_grid
from emorl.runs.run import Run

CHUNKS = 10  # scenes to measure, in multiples of a data set's `chunk`; that takes seconds
LOOKS_THE_SAME = "-fast"  # the end of names of data sets that need no picture of their own


def has_no_s_or_z(scene: Arrays) -> bool:
    """Returns whether no piece of a Tetrominoes scene is an S or a Z, in any orientation."""
    return not np.isin(scene["shape"], [11, 12, 13, 14]).any()


def has_no_green_square(scene: Arrays) -> bool:
    """Returns whether no sprite of a Multi-dSprites scene is a square with a green hue, 0.25 to 0.42."""
    hues = [colorsys.rgb_to_hsv(*color)[0] for color in scene["color"][scene["shape"] == 1]]
    return not any(0.25 <= hue <= 0.42 for hue in hues)


# data set -> what is counted, how, and its share of the published million
KNOWN: dict[str, tuple[str, Callable[[Arrays], bool], float]] = {
    "tetrominoes": ("scenes without S or Z piece", has_no_s_or_z, 0.503318),
    "multi-dsprites": ("scenes without green square", has_no_green_square, 0.817352),
}


def touching(segmentation: np.ndarray[Any, Any]) -> int:
    """Number of objects with a pixel beside one of another object."""
    found: set[int] = set()
    for one, other in (
        (segmentation[:, :-1], segmentation[:, 1:]),
        (segmentation[:-1], segmentation[1:]),
    ):
        differ = (one != other) & (one > 0) & (other > 0)
        found |= {*one[differ].tolist(), *other[differ].tolist()}
    return len(found)


def statistics(name: str, scenes: Iterable[Arrays]) -> dict[str, Any]:
    """Numbers of objects, their pixels, how many touch, and the background."""
    objects, pixels, background, touch, hits = [], [], [], 0, 0
    for scene in scenes:
        sizes = np.bincount(scene["segmentation"].ravel())[1:]
        objects.append(int((sizes > 0).sum()))
        pixels += sizes[sizes > 0].tolist()
        touch += touching(scene["segmentation"])
        background.append(scene["image"][scene["segmentation"] == 0].mean(axis=0))
        hits += name in KNOWN and KNOWN[name][1](scene)
    number, counts = len(objects), np.bincount(objects)
    values: dict[str, Any] = {
        "scenes": number,
        "objects": {str(n): round(float(many) / number, 4) for n, many in enumerate(counts) if many},
        "pixels_per_object": round(float(np.mean(pixels)), 1),
        "pixels_of_the_least_visible": round(float(np.quantile(pixels, 0.05)), 1),
        "share_that_touches_another": round(touch / len(pixels), 3),
        "background_rgb": [round(float(c), 1) for c in np.mean(background, axis=0)],
    }
    if name in KNOWN and number > 1000:
        what, _, published = KNOWN[name]
        values["known"] = {"what": what, "measured": hits / number, "published": published}
    return values


def published_clevr(path: Path) -> Iterator[Arrays]:
    """Scenes of CLEVR's own files, rendered by Blender; segmentations at half the size of the window."""
    file = np.load(path)
    for image, segmentation in zip(file["images"], file["masks"], strict=True):
        yield {"image": image, "segmentation": segmentation[::2, ::2]}


def measure(job: Job) -> Iterator[Row]:
    """Yields the statistics of every generated data set, and of the published files if their folder is given."""
    for name, make in DATASETS.items():
        number = 2 if job.scale == "tiny" else CHUNKS * make(length=1).chunk
        scenes = make(length=number)
        yield Row(name, statistics(name, (scenes.arrays(index) for index in range(number))))
    if job.files is not None:
        records = record_scenes(job.files / "tetrominoes_mini.tfrecords", LAYOUTS["tetrominoes"])
        yield Row("published tetrominoes", statistics("tetrominoes", (scene for scene, _ in records)))
        blender = published_clevr(job.files / BLENDER)
        yield Row("CLEVR rendered by Blender", statistics("clevr", blender))


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Eight scenes of each data set, with their objects."""
    for name, make in DATASETS.items():
        if not name.endswith(LOOKS_THE_SAME):
            save_picture(scene_grid(make(length=8), 8), path.with_name(f"{path.stem}-{name}.png"))


def sections(result: Result) -> dict[str, str]:
    """Returns the table for the page about data."""
    known = "{what}: {measured:.3f}, published {published:.3f}"
    cells: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "data set": lambda v: v["label"],
        "scenes": lambda v: str(v["scenes"]),
        "objects per scene: share": lambda v: ", ".join(
            f"{n}: {share:.2f}" for n, share in v["objects"].items()
        ),
        "pixels per object (5 % have at most)": (
            lambda v: f"{v['pixels_per_object']:.0f} ({v['pixels_of_the_least_visible']:.0f})"
        ),
        "touch another": lambda v: f"{v['share_that_touches_another']:.2f}",
        "background RGB": lambda v: " ".join(f"{c:.0f}" for c in v["background_rgb"]),
        "known share": lambda v: known.format(**v["known"]) if "known" in v else "",
    }
    return {
        "docs/data.md#statistics": columns([{"label": row.label, **row.values} for row in result.rows], cells)
    }


EXPERIMENT = Experiment("What the generated data sets look like", measure, draw=draw, sections=sections)
