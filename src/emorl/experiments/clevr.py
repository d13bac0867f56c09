"""CLEVR: our pictures beside Blender's of the same scenes, and how fast they are rendered.

Needs a folder with clevr_blender_24.npz (`--files`): scenes of CLEVR's own files, rendered by Blender.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from emorl.data.clevr.render import Quality, render
from emorl.data.clevr.scene import ClevrScene
from emorl.experiments.base import BLENDER, Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import Cells, columns

QUALITIES: tuple[Quality, ...] = ("full", "fast")


def scene_of(reference: Any, index: int) -> ClevrScene:
    """Returns scene `index` of the reference file, as our renderer takes it."""
    number = reference["n_objects"][index]
    x, y, z, _, _, material, shape, color = reference["factors"][index][:number].T.astype(float)
    yaw = reference["yaw"][index][:number].astype(float)
    shape, material, color = (values.astype(int) for values in (shape, material, color))
    return ClevrScene(
        x, y, z, yaw, shape, material, color, reference["camera"][index], reference["lights"][index]
    )


def compared(reference: Any, quality: Quality) -> dict[str, float]:
    """Renders all scenes of the reference file. Returns the differences from Blender's pictures, and the speed."""
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


def measure(job: Job) -> Iterator[Row]:
    """Yields a row for each rendering quality."""
    reference = dict(np.load(job.published_file(BLENDER, "clevr")))
    for quality in QUALITIES:
        yield Row(quality, compared(reference, quality))


def sections(result: Result) -> dict[str, str]:
    """Returns the table for the page about data."""
    cells: Cells = {
        "quality": lambda row: row.label,
        "RMSE of 255": lambda row: f"{row.values['rmse_of_255']:.2f}",
        "mask pixels that differ": lambda row: f"{row.values['mask_pixels_different_percent']:.2f} %",
        "scenes per second and core": lambda row: f"{row.values['scenes_per_second_and_core']:.1f}",
    }
    return {"docs/data.md#clevr": columns(result.rows, cells)}


EXPERIMENT = Experiment("Our CLEVR pictures beside Blender's", measure, sections=sections)
