"""emorl decompose"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from PIL import Image

from emorl.cli.named_pictures import find_pictures, readable_pictures, result_folders
from emorl.cli.options import Device, check_options, choose_device, print_json
from emorl.data.fit import Fit
from emorl.data.images import read_pixels
from emorl.errors import UserError
from emorl.files import MARK, check_output, make_directory, read_json, write_bytes, write_json
from emorl.objects import NOBODY, WELL_EXPLAINED, owners
from emorl.panels import palette, picture_row, pictures_apart
from emorl.pictures import LARGEST, TakenApart, take_apart
from emorl.plots.files import save_picture
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say
from emorl.types import array

OVERVIEW, SEGMENTATION, ARRAYS, OBJECTS = FILES = (
    "overview.png",
    "segmentation.png",
    "arrays.npz",
    "objects.json",
)
LARGEST_PANEL = 320  # longer side of the panels of an overview, in pixels
MOST_SLOTS = 255  # that a picture with a palette can tell apart


def decompose_command(
    run: tyro.conf.Positional[str],
    pictures: tyro.conf.Positional[tuple[str, ...]],
    out: Path,
    fit: Fit | None = None,
    slots: int | None = None,
    steps: int | None = None,
    sample: bool = False,
    tries: int = 1,
    seed: int = 0,
    largest: int = LARGEST,
    skip_damaged: bool = False,
    json: bool = False,
    device: Device = "auto",
) -> None:
    """Take pictures of any size apart into objects.

    Each gets a folder in OUT that mirrors its path, with overview.png (picture, reconstruction, owners, one panel per
    slot), segmentation.png (the slot that owns each pixel, plus one, at the picture's own size), objects.json (area,
    box, centre and colour of each object, and how much of the picture is explained) and arrays.npz (masks, components,
    reconstruction, segmentation, slots).

    Args:
        run: Run directory of a training, or the name of released weights.
        pictures: Image files, folders with all below them, or patterns such as "photos/**/*.jpg".
        out: Folder for the results. Files in it that emorl has not written are never overwritten.
        fit: How pictures become square: crop cuts the middle out, pad adds a margin, stretch distorts. As the run was
            trained if left out.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        sample: Sample the last posterior instead of taking its mean.
        tries: Infer so often and keep, for each picture, what reconstructs it best.
        seed: Of the random start of the slots, and of samples.
        largest: Longer side of the arrays of a picture that is larger than this.
        skip_damaged: Leave pictures out that cannot be read, instead of refusing to begin.
        json: Also print the content of each objects.json, a line for each picture.
        device: auto takes a GPU if there is one.
    """
    check_options(slots=slots, steps=steps, tries=tries, seed=seed, largest=largest)
    where = choose_device(device)
    named = find_pictures(pictures, without=out)
    opened = Run.open(run)
    model = opened.model.to(where)
    if model.budget(slots, steps)[0] > MOST_SLOTS:
        raise UserError(f"{SEGMENTATION} has room for {MOST_SLOTS} slots: use fewer --slots.")
    with progress_bar("looking at pictures") as progress:
        paths, damaged = readable_pictures(named, skip_damaged=skip_damaged, progress=progress)
    folders = result_folders(paths, out)
    for path, folder in zip(paths, folders, strict=True):
        check_folder(folder, path, paths)
    for error in damaged:
        say(f"Left out: {error}")
    fit = fit or opened.config.data.fit
    budget: Any = {"num_slots": slots, "num_steps": steps, "tries": tries, "means": not sample}
    say(f"Taking {len(paths)} pictures apart with {opened.name} ({fit}), on {where.type}, into {out}.")
    found = take_apart(model, map(read_pixels, paths), fit=fit, seed=seed, largest=largest, **budget)
    badly = []
    with progress_bar("taking apart") as progress:
        for number, (path, folder, one) in enumerate(zip(paths, folders, found, strict=True), start=1):
            described = describe(path, opened.name, one)
            save(folder, one, described)
            if json:
                print_json(described)
            if not one.is_explained:
                badly.append(path)
                say(f"Warning: {path} is explained badly: {one.explained:.0%} of it.")
            progress(number, len(paths))
    if badly:
        say(
            f"Objects of what is less than {WELL_EXPLAINED:.0%} explained ({len(badly)} of {len(paths)}) mean nothing. "
            f"{opened.name} has learned from {opened.config.data.name}; for other "
            "pictures train on their like: emorl train efficient-morl/folder --data.path FOLDER"
        )
    say(f"Wrote {', '.join(FILES)} of {len(paths)} pictures below {out}.")


def check_folder(folder: Path, path: Path, inputs: list[Path]) -> None:
    """Raises UserError if to write results would destroy an input, what is not ours, or results of another picture."""
    for name in FILES:
        check_output(folder / name, inputs=inputs)
    if (folder / OBJECTS).exists():
        other = read_json(folder / OBJECTS).get("picture")
        if other != os.path.abspath(path):
            raise UserError(f"{folder} holds the results of {other}, not of {path}: choose another --out.")


def describe(path: Path, model: str, one: TakenApart) -> dict[str, Any]:
    """What objects.json says of a picture; boxes and centres are in its own pixels, colours from 0 to 255."""
    height, width = one.size
    table = {name: values.tolist() for name, values in one.objects.items()}
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    down, right = height / one.place.height, width / one.place.width
    left, top, beyond, below = one.place.seen
    return {
        "software": MARK,
        "picture": os.path.abspath(path),
        "model": model,
        "width": width,
        "height": height,
        "fit": one.place.fit,
        "seen": [round(left * right), round(top * down), round(beyond * right), round(below * down)],
        "explained": round(one.explained, 4),
        "is_explained": one.is_explained,
        "objects": [
            {
                "slot": row["slot"],
                "area": row["area"],
                "share": round(row["share"], 4),
                "box": [row["left"], row["top"], row["right"], row["bottom"]],
                "centre": [round(row["x"], 2), round(row["y"], 2)],
                "colour": [round(255 * row[channel]) for channel in ("red", "green", "blue")],
                "background": row["background"],
            }
            for row in rows
        ],
    }


def save(folder: Path, one: TakenApart, described: Mapping[str, Any]) -> None:
    """Writes the four files of a picture; objects.json comes last."""
    make_directory(folder)
    row = picture_row(torch.from_numpy(one.picture), one.parts.masks[0], one.parts.components[0])
    save_picture(pictures_apart([row], largest=LARGEST_PANEL), folder / OVERVIEW)
    indexed = Image.fromarray((one.owners + 1).astype(np.uint8), "P")
    indexed.putpalette([40, 40, 40, *palette(one.parts.masks.shape[1]).ravel().tolist()])
    save_picture(indexed, folder / SEGMENTATION)
    write_bytes(folder / ARRAYS, packed(one))
    write_json(folder / OBJECTS, described)


def packed(one: TakenApart) -> bytes:
    """The arrays of a picture as .npz, at the size of the results; around the part that was seen, masks are 0."""
    parts, masks = one.parts, array(one.parts.masks[0, :, 0])
    arrays: dict[str, Any] = {
        "masks": one.place.on_picture(masks.astype(np.float16), 0),  # (K, H, W)
        "components": one.place.on_picture(array(parts.components[0]).astype(np.float16), 0),  # (K, 3, H, W)
        "reconstruction": one.place.on_picture(array(parts.image[0]).astype(np.float16), 0),  # (3, H, W)
        "picture": one.place.on_picture(one.picture.astype(np.float16), 0),  # (3, H, W), where it was seen
        "segmentation": one.place.on_picture(owners(masks).astype(np.int16), NOBODY),  # (H, W)
        "slots": array(parts.slots[0]),  # (K, D)
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = MARK.encode()
    return buffer.getvalue()
