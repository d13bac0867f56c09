"""emorl evaluate"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tyro

from emorl.cli.options import Device, check_options, choose_device, print_json
from emorl.cli.other_data import scenes_of
from emorl.data import Split
from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.dci import check_trees, evaluate_dci
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.evaluation.metrics import metric, shown_first
from emorl.files import read_json, write_json
from emorl.models.base import Model
from emorl.plots.files import check_picture_file, save_picture
from emorl.plots.scenes import scene_panels
from emorl.runs.directory import SCORES
from emorl.runs.provenance import stamp
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say


def evaluate_command(
    run: tyro.conf.Positional[str],
    slots: int | None = None,
    steps: int | None = None,
    images: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    means: bool = False,
    tries: int = 1,
    dci: Literal["no", "fast", "exact"] = "no",
    data: str | None = None,
    path: Path | None = None,
    split: Split | None = None,
    device: Device = "auto",
    all: bool = False,
    json: bool = False,
    picture: Path | None = None,
) -> None:
    """Score a trained model on held-out scenes; scores on its own data also go to RUN/scores.json of a run directory.

    Args:
        run: Run directory of a training, or the name of released weights.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        images: Number of scenes; all of the split if left out.
        seed: Of the posterior samples.
        seeds: Infer every scene with so many seeds, from `seed` on; scores are means, with their spread.
        means: Decode the mean of the last posterior; the paper scores samples.
        tries: Infer so often and keep, for each image, what reconstructs it best; the paper scores one.
        dci: Also measure how disentangled the slots are; "exact" trees take minutes.
        data: Another data set, of images as large as those it was trained on, or folder: one's own images.
        path: Where the images of a folder are, or stored scenes.
        split: Which scenes; test if left out, or all of a folder that it was not trained on.
        device: auto takes a GPU if there is one.
        all: Print every score, not only the most important ones.
        json: Print one JSON object instead of a table.
        picture: Draw the first eight scenes, taken apart, into this PNG.
    """
    check_options(slots=slots, steps=steps, images=images, seed=seed, seeds=seeds, tries=tries)
    if dci != "no":
        check_trees()
    where, opened = choose_device(device), Run.open(run)
    if picture is not None:
        check_picture_file(picture, inputs=[*opened.inputs, *([] if path is None else [path])])
    scenes = scenes_of(opened, data=data, path=path, split=split)
    model = opened.model.to(where)
    with progress_bar("evaluating") as progress:
        budget: Any = {"num_slots": slots, "num_steps": steps, "tries": tries}
        noise: Any = {"seed": seed, "seeds": seeds, "means": means}
        scores = evaluate(model, scenes, images=images, progress=progress, **noise, **budget)
    extra = {} if dci == "no" else measure_dci(model, scenes, images, seed, fast=dci == "fast")
    if json:
        print_json({**scores.summary(), **extra})
    else:
        print_table(scores, extra, list(scores.values) if all else shown_first(scores.values))
    if opened.directory is not None and data is None and path is None:
        found = {"split": split or "test", **scores.to_dict(), **extra, "stamp": stamp()}
        try:
            keep_scores(opened.directory / SCORES, found)
        except UserError as error:
            warnings.warn(str(error), stacklevel=1)
    if picture is not None:
        save_picture(scene_panels(model, scenes, sample=not means, **budget), picture)
        say(f"Drew {picture}: image, reconstruction, segmentation, and one panel per slot.")


def keep_scores(path: Path, found: Mapping[str, Any]) -> None:
    """Writes scores, in the place of earlier ones. Raises UserError if something else is there."""
    if os.path.lexists(path) and not are_scores(path):
        raise UserError(f"{path} holds no scores of emorl, so it is not overwritten: move it.")
    write_json(path, found)


def are_scores(path: Path) -> bool:
    """Whether a file was written by `keep_scores`."""
    try:
        return {"images", "per_image"} <= read_json(path).keys()
    except UserError:
        return False


def measure_dci(
    model: Model, scenes: SceneDataset, images: int | None, seed: int, *, fast: bool
) -> dict[str, Any]:
    """DCI scores by their names in METRICS, and which trees measured them."""
    found = evaluate_dci(model, scenes, images=images, seed=seed, fast=fast)
    return {**found.summary(), "dci_trees": "fast" if fast else "exact"}


def print_table(scores: Scores, extra: Mapping[str, Any], names: list[str]) -> None:
    """A line for each score: title, mean and standard error, and what it means; then how they came about."""
    rows = []
    for name in names:
        spread = ""
        if scores.settings["seeds"] > 1:
            spread = f" (sd over seeds {metric(name).text(scores.deviation(name))})"
        value = metric(name).text(scores.mean(name), scores.standard_error(name))
        rows.append((metric(name).heading, value + spread, metric(name).meaning))
    for name, found in extra.items():
        value = metric(name).text(found) if isinstance(found, int | float) else str(found)
        rows.append((metric(name).heading, value, metric(name).meaning))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for heading, value, meaning in rows:
        print(f"{heading:<{widths[0]}}  {value:<{widths[1]}}  {meaning}".rstrip())
    settings = "  ".join(f"{name} {value}" for name, value in scores.settings.items())
    print(f"± is the standard error over images.  {settings}")
