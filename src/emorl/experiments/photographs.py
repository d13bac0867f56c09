"""Photographs: the preset for one's own pictures on windows of photographs that come with scikit-image.

There are no masks, so nothing says which objects are right. What is measured is how much of a picture is explained, and
by how many slots; whether slots hold objects is to be seen in the pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from emorl.data.images import read_pixels
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.experiments.base import Experiment, Job, means, row_of
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import changed
from emorl.experiments.tables import count, provenance, table
from emorl.files import make_directory
from emorl.plots.files import save_picture
from emorl.plots.scenes import scene_panels
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run
from emorl.training.trainer import train

PHOTOGRAPHS = {  # label -> files of skimage/data
    "coins": ("coins.png",),
    "six photographs": (
        "astronaut.png",
        "chelsea.png",
        "coffee.png",
        "coins.png",
        "motorcycle_left.png",
        "rocket.jpg",
    ),
}
WINDOWS, TINY_WINDOWS = 1500, 40  # cut from the photographs of one row
SHARES = 0.3, 0.6  # sides of windows, of the shorter side of the photograph
STEPS = 3000
SCORES = ("explained", "slots_used", "mse")


def folder_of_photographs() -> Path:
    """Returns the folder of scikit-image's own pictures; raises UserError if it is not installed."""
    found = find_spec("skimage")
    if found is None or found.origin is None:
        raise UserError("The photographs are those of scikit-image: pip install scikit-image")
    return Path(found.origin).parent / "data"


def cut_windows(files: tuple[str, ...], folder: Path, *, number: int, side: int) -> None:
    """Writes square windows at random places of the photographs into `folder`, half of them mirrored.

    The same ones every time. Windows of a photograph overlap: what is held out is new, but not another photograph.
    """
    make_directory(folder)
    photographs = [read_pixels(folder_of_photographs() / name) for name in files]
    rng = np.random.default_rng(0)
    for index in range(number):
        pixels = photographs[index % len(photographs)]
        height, width = pixels.shape[:2]
        length = int(min(height, width) * rng.uniform(*SHARES))
        top, left = rng.integers(height - length + 1), rng.integers(width - length + 1)
        window = pixels[top : top + length, left : left + length]
        window = window[:, ::-1] if rng.random() < 0.5 else window
        picture = Image.fromarray(np.ascontiguousarray(window)).resize((side, side), Image.Resampling.LANCZOS)
        picture.save(folder / f"{index:04}.png")


def settings(windows: Path, *, tiny: bool) -> RunConfig:
    """The preset for one's own pictures, shortened."""
    run = PRESETS["efficient-morl/folder"]
    run = replace(run, data=replace(run.data, path=str(windows)))
    short: RunConfig = changed(
        run, {"train.steps": 4 if tiny else STEPS, "train.evaluate_images": 4 if tiny else 64}
    )
    return short


def measure(job: Job) -> Iterator[Row]:
    """Cuts windows, trains on them, and yields the scores on held-out ones; draws what was found there."""
    tiny = job.scale == "tiny"
    for label, files in PHOTOGRAPHS.items():
        name = label.replace(" ", "-")
        windows, directory = job.folder / "windows" / name, job.folder / "photographs" / name
        config = settings(windows, tiny=tiny)
        cut_windows(files, windows, number=TINY_WINDOWS if tiny else WINDOWS, side=config.data.image_size)
        train(config, directory, resume=True)
        run = Run.open(directory, label=label)
        scenes = run.scenes("test")
        yield row_of(run, means(evaluate(run.model, scenes), *SCORES), scenes="held-out windows")
        save_picture(scene_panels(run.model, scenes, sample=True), job.folder / f"photographs-{name}.png")


def sections(result: Result) -> dict[str, str]:
    """The scores, for the page about one's own pictures."""
    head = ["windows of", "steps", "CPU minutes", *(EXPERIMENT.metric(name).heading for name in SCORES)]
    rows = [
        [row.label, count(row.steps), f"{row.cpu_minutes or 0:.0f}",
         *(EXPERIMENT.metric(name).text(row.values[name]) for name in SCORES)]
        for row in result.rows
    ]  # fmt: skip
    said = f"`emorl reproduce photographs`: {EXPERIMENT.how('cpu')}. {provenance(result)}"
    return {"docs/tutorials/own-pictures.md#photographs": f"{table(head, rows)}\n\n{said}"}


EXPERIMENT = Experiment(
    "Photographs of scikit-image, taken apart by the preset for one's own pictures",
    measure,
    SCORES,
    protocol=f"efficient-morl/folder with {STEPS} steps on {WINDOWS} windows of the photographs, one seed; "
    "a tenth of the windows is held out",
    sections=sections,
)
