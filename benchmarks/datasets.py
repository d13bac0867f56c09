"""Measures what the generated data sets look like, beside what is known of the published ones, and draws each.

python benchmarks/datasets.py [--published FOLDER]

The folder may hold tetrominoes_mini.tfrecords and clevr_blender_24.npz: they are measured in the same way.
"""

from __future__ import annotations

import argparse
import colorsys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from emorl.data import DATASETS
from emorl.data.base import Arrays
from emorl.data.published import LAYOUTS, scenes_of
from emorl.files import write_json
from emorl.plots.pictures import grid, save_picture, scene_row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "datasets.json"
COUNTS = {"tetrominoes": 20_000, "multi-dsprites": 5_000, "clevr": 150}  # scenes, by family


def has_no_s_or_z(scene: Arrays) -> bool:
    return not np.isin(scene["shape"], [11, 12, 13, 14]).any()


def has_no_green_square(scene: Arrays) -> bool:
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
    objects, pixels, background, touch, hits = [], [], [], 0, 0
    for scene in scenes:
        sizes = np.bincount(scene["segmentation"].ravel())[1:]
        objects.append(int((sizes > 0).sum()))
        pixels += sizes[sizes > 0].tolist()
        touch += touching(scene["segmentation"])
        background.append(scene["image"][scene["segmentation"] == 0].mean(axis=0))
        hits += name in KNOWN and KNOWN[name][1](scene)
    count, counts = len(objects), np.bincount(objects)
    result: dict[str, Any] = {
        "scenes": count,
        "objects": {str(n): round(float(many) / count, 4) for n, many in enumerate(counts) if many},
        "pixels_per_object": round(float(np.mean(pixels)), 1),
        "pixels_of_the_least_visible": round(float(np.quantile(pixels, 0.05)), 1),
        "share_that_touches_another": round(touch / len(pixels), 3),
        "background_rgb": [round(float(c), 1) for c in np.mean(background, axis=0)],
    }
    if name in KNOWN and count > 1000:
        what, _, published = KNOWN[name]
        result["known"] = {"what": what, "measured": hits / count, "published": published}
    return result


def published_clevr(path: Path) -> Iterator[Arrays]:
    """Scenes of CLEVR's own files, rendered by Blender; segmentations at half the size of the window."""
    file = np.load(path)
    for image, segmentation in zip(file["images"], file["masks"], strict=True):
        yield {"image": image, "segmentation": segmentation[::2, ::2]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--published", type=Path, help="folder of published files")
    folder = parser.parse_args().published
    results = {}
    for name, make in DATASETS.items():
        count = next(count for family, count in COUNTS.items() if name.startswith(family))
        scenes = make(length=count)
        results[name] = statistics(name, (scenes.arrays(index) for index in range(count)))
        print(name, results[name])
        if name.endswith("-fast"):  # looks the same
            continue
        rows = [scene_row(scenes[index]) for index in range(8)]
        picture = grid([list(chain(*rows[first : first + 4])) for first in (0, 4)])
        save_picture(picture, ROOT / "docs" / "images" / f"data-{name}.png")
    if folder is not None:
        records = scenes_of(folder / "tetrominoes_mini.tfrecords", LAYOUTS["tetrominoes"])
        results["published tetrominoes"] = statistics("tetrominoes", (scene for scene, _ in records))
        blender = published_clevr(folder / "clevr_blender_24.npz")
        results["CLEVR rendered by Blender"] = statistics("clevr", blender)
    write_json(RESULTS, results)


if __name__ == "__main__":
    main()
