"""emorl evaluate and emorl decompose"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from emorl.cli.console import progress_bar, say
from emorl.data import SceneDataset, Split, open_dataset
from emorl.data.images import read_pixels
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.files import make_directory, write_json
from emorl.models.base import Model
from emorl.plots.pictures import save_decomposition, save_picture, scenes_apart
from emorl.probability import noise_from, noise_per_image
from emorl.runs.run import load_with_config


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
    split: Split = "test",
    json: bool = False,
    picture: Path | None = None,
) -> None:
    """Score a trained model on held-out scenes; the scores also go to RUN/scores.json of a run directory.

    Args:
        run: Run directory of a training, or the name of released weights.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        images: Number of scenes; all of the split if left out.
        seed: Of the posterior samples.
        seeds: Infer every scene with so many seeds, from `seed` on; scores are means, with their spread.
        means: Take posteriors at their means; the paper scores samples.
        tries: Infer so often and keep, for each image, what reconstructs it best; the paper scores one.
        dci: Also measure how disentangled the slots are; "exact" trees take minutes.
        split: Which scenes.
        json: Print one JSON object instead of a table.
        picture: Draw the first eight scenes, taken apart, into this PNG.
    """
    model, config = load_with_config(run)
    scenes = open_dataset(config.data, split)
    with progress_bar("evaluating") as progress:
        budget: Any = {"num_slots": slots, "num_steps": steps, "tries": tries}
        noise: Any = {"seed": seed, "seeds": seeds, "means": means}
        scores = evaluate(model, scenes, images=images, progress=progress, **noise, **budget)
    extra = {} if dci == "no" else measure_dci(model, scenes, images, seed, fast=dci == "fast")
    report(scores, extra, as_json=json)
    if picture is not None:
        save_picture(scenes_apart(model, scenes, sample=not means, **budget), picture)
        say(f"Drew {picture}: image, reconstruction, segmentation, and one panel per slot.")
    try:
        if Path(run).is_dir():
            write_json(Path(run) / "scores.json", {"split": split, **scores.to_dict()})
    except UserError as error:
        warnings.warn(str(error), stacklevel=1)


def measure_dci(
    model: Model, scenes: SceneDataset, images: int | None, seed: int, *, fast: bool
) -> dict[str, float]:
    from emorl.evaluation.dci import evaluate_dci  # here, because scikit-learn takes a second to import

    found = evaluate_dci(model, scenes, images=images, seed=seed, fast=fast)
    return {f"dci_{name}": value for name, value in found.summary().items()}


def report(scores: Scores, extra: Mapping[str, float], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**scores.summary(), **extra}))
        return
    for name in scores.values:
        spread = "" if scores.settings["seeds"] == 1 else f"  sd over seeds {scores.deviation(name):.2g}"
        print(f"{name:<19} {scores.mean(name):12.5g}  ± {scores.standard_error(name):.2g}{spread}")
    for name, value in extra.items():
        print(f"{name:<29} {value:.5g}")
    print("  ".join(f"{name} {value}" for name, value in scores.settings.items()))


def decompose_command(
    run: tyro.conf.Positional[str],
    images: tyro.conf.Positional[tuple[Path, ...]],
    out: Path,
    slots: int | None = None,
    steps: int | None = None,
    sample: bool = False,
    tries: int = 1,
    seed: int = 0,
) -> None:
    """Take images apart: a PNG with one panel per slot, and the arrays as .npz, for each.

    Args:
        run: Run directory of a training, or the name of released weights.
        images: Image files of the size the model was trained on.
        out: Folder for the results.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        sample: Sample posteriors instead of taking their means.
        tries: Infer so often and keep, for each image, what reconstructs it best.
        seed: Of the random start of the slots, and of samples.
    """
    if not images:
        raise UserError("Name at least one image: emorl decompose RUN IMAGE... --out DIR")
    model, _ = load_with_config(run)
    loaded = [open_image(path, model) for path in images]  # all of them first: nothing is half done
    make_directory(out)
    for number, (path, x) in enumerate(zip(images, loaded, strict=True)):
        with noise_from(noise_per_image([seed])):
            parts = model.decompose(x[None], num_slots=slots, num_steps=steps, sample=sample, tries=tries)
        is_taken = path.stem in {other.stem for other in images[:number]}
        target = out / (f"{path.stem}-{number}" if is_taken else path.stem)
        save_decomposition(target, x, parts)
        say(f"{path} -> {target}.png, {target}.npz")


def open_image(path: Path, model: Model) -> torch.Tensor:
    """Reads an image that fits `model`, or says why it does not."""
    pixels = read_pixels(path)
    size = model.config.image_size
    if pixels.shape[:2] != (size, size):
        raise UserError(
            f"{path} is {pixels.shape[1]}x{pixels.shape[0]}; this model takes {size}x{size} images."
        )
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
