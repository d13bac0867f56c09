"""Compares our CLEVR pictures with Blender's of the same scenes, and measures how fast they are rendered.

python benchmarks/clevr.py clevr_blender_24.npz
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from emorl.data.clevr.render import Quality, render
from emorl.data.clevr.scene import ClevrScene
from emorl.files import write_json

RESULTS = Path(__file__).parent / "results" / "clevr.json"


def scene_of(reference: Any, index: int) -> ClevrScene:
    count = reference["n_objects"][index]
    x, y, z, _, _, material, shape, color = reference["factors"][index][:count].T.astype(float)
    yaw = reference["yaw"][index][:count].astype(float)
    codes = (values.astype(int) for values in (shape, material, color))
    return ClevrScene(x, y, z, yaw, *codes, reference["camera"][index], reference["lights"][index])


def compare(reference: Any, quality: Quality) -> dict[str, float]:
    errors, differences, seconds = [], [], 0.0
    for index in range(len(reference["n_objects"])):
        scene = scene_of(reference, index)
        started = time.process_time()
        pixels, ids = render(scene, quality)
        seconds += time.process_time() - started
        small = np.asarray(Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC))
        errors.append(np.square(small.astype(float) - reference["images"][index]).mean())
        differences.append((ids != reference["masks"][index]).mean())
    return {
        "rmse_of_255": round(float(np.sqrt(np.mean(errors))), 3),
        "mask_pixels_different_percent": round(100 * float(np.mean(differences)), 4),
        "scenes_per_second_and_core": round(len(errors) / seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path, help="scenes rendered by Blender")
    reference = dict(np.load(parser.parse_args().reference))
    results: dict[str, Any] = {"command": "python benchmarks/clevr.py clevr_blender_24.npz"}
    results |= {quality: compare(reference, quality) for quality in ("full", "fast")}
    write_json(RESULTS, results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
