"""Measures what the generated data sets look like, beside what is known of the published ones, and draws each.

python benchmarks/datasets.py
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from emorl.data import DATASETS
from emorl.data.base import Arrays, SceneDataset
from emorl.files import write_json
from emorl.report.images import grid, save_picture, scene_row

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


def statistics(name: str, scenes: SceneDataset) -> dict[str, Any]:
    objects, pixels, background, hits = [], [], [], 0
    for index in range(len(scenes)):
        scene = scenes.arrays(index)
        sizes = np.bincount(scene["segmentation"].ravel())
        objects.append(len(sizes) - 1)
        pixels += sizes[1:].tolist()
        background.append(scene["image"][scene["segmentation"] == 0].mean(axis=0))
        hits += name in KNOWN and KNOWN[name][1](scene)
    counts = np.bincount(objects)
    result: dict[str, Any] = {
        "scenes": len(scenes),
        "objects": {str(n): round(float(count) / len(scenes), 4) for n, count in enumerate(counts) if count},
        "pixels_per_object": round(float(np.mean(pixels)), 1),
        "background_rgb": [round(float(c), 1) for c in np.mean(background, axis=0)],
    }
    if name in KNOWN:
        what, _, published = KNOWN[name]
        result["known"] = {"what": what, "measured": hits / len(scenes), "published": published}
    return result


def main() -> None:
    results = {}
    for name, make in DATASETS.items():
        count = next(count for family, count in COUNTS.items() if name.startswith(family))
        scenes = make(length=count)
        results[name] = statistics(name, scenes)
        print(name, results[name])
        if name.endswith("-fast"):  # looks the same
            continue
        rows = [scene_row(scenes[index]) for index in range(8)]
        picture = grid([list(chain(*rows[first : first + 4])) for first in (0, 4)])
        save_picture(picture, ROOT / "docs" / "images" / f"data-{name}.png")
    write_json(RESULTS, results)


if __name__ == "__main__":
    main()
