"""emorl sweep"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tyro

from emorl.cli.options import Device, check_options, choose_device
from emorl.cli.other_data import scenes_of
from emorl.data import Split
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import metric, shown_in_charts
from emorl.evaluation.sweeps import Row, by_objects, stability, sweep
from emorl.files import MARK, check_output, make_directory, write_json
from emorl.plots.files import check_chart_file, save_chart
from emorl.plots.lines import score_chart
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say


def sweep_command(
    what: tyro.conf.Positional[Literal["steps", "slots", "objects", "stability"]],
    run: tyro.conf.Positional[str],
    values: tuple[int, ...] = (),
    data: str | None = None,
    path: Path | None = None,
    slots: int | None = None,
    images: int | None = None,
    seeds: int | None = None,
    split: Split | None = None,
    device: Device = "auto",
    out: Path | None = None,
    picture: Path | None = None,
    all: bool = False,
) -> None:
    """Score a trained model while one thing changes.

    steps: refinement steps I, 0 to 6. slots: K, from as trained to three more. objects: one evaluation, apart for
    scenes with 1, 2, 3, ... objects; with --data clevr10 --slots 11 the paper's test of generalisation. stability:
    every image inferred several times, and how alike the results are.

    Args:
        what: steps, slots, objects or stability.
        run: Run directory of a training, or the name of released weights.
        values: Of I or K; the usual ones if left out.
        data: Another data set, of images as large as those it was trained on, or folder: one's own images.
        path: Where the images of a folder are, or stored scenes.
        slots: K, number of slots; as trained if left out.
        images: Number of scenes; all of the split if left out.
        seeds: Infer every image with so many seeds; 1 if left out, 5 for stability.
        split: Which scenes; test if left out, or all of a folder that it was not trained on.
        device: auto takes a GPU if there is one.
        out: Write the numbers to this JSON file.
        picture: Draw them into this PNG.
        all: Print every score, not only the most important ones; the JSON file has all of them.
    """
    check_options(slots=slots, images=images, seeds=seeds)
    if what in ("steps", "slots"):
        check_options(**{what: values})
    where, opened = choose_device(device), Run.open(run)
    inputs = [*opened.inputs, *([] if path is None else [path])]
    if out is not None:
        check_output(out, inputs=inputs)
    if picture is not None:
        check_chart_file(picture, inputs=inputs)
    scenes = scenes_of(opened, data=data, path=path, split=split)
    model = opened.model.to(where)
    options: Any = {"images": images, "seeds": 1 if seeds is None else seeds}
    with progress_bar(f"sweeping {what}") as progress:
        match what:
            case "steps":
                options |= {"num_slots": slots, "progress": progress}
                rows = sweep(model, scenes, "num_steps", values or range(7), **options)
            case "slots":
                K = model.config.num_slots
                rows = sweep(
                    model, scenes, "num_slots", values or range(K, K + 4), progress=progress, **options
                )
            case "objects":
                rows = by_objects(
                    evaluate(model, scenes, num_slots=slots, progress=progress, **options), scenes
                )
            case "stability":
                options = {"images": images or len(scenes), "seeds": 5 if seeds is None else seeds}
                found = stability(model, scenes, progress=progress, **options)
                rows = [{"value": n, "agreement": float(value)} for n, value in enumerate(found)]
    print_rows(what, rows, everything=all)
    if out is not None:
        make_directory(out.parent)
        write_json(out, {"software": MARK, "sweep": what, "run": run, "data": scenes.info.name, "rows": rows})
        say(f"Wrote {out}.")
    if picture is not None:
        save_chart(score_chart({"": rows}, label=what), picture)
        say(f"Drew {picture}.")


def print_rows(what: str, rows: Sequence[Row], *, everything: bool) -> None:
    """A line for each value and a column for each score."""
    if what == "stability":
        values = [row["agreement"] for row in rows]
        mean, alike = sum(values) / len(values), sum(value > 0.95 for value in values)
        print(
            f"mean agreement {mean:.4f}; {alike} of {len(values)} images come out alike every time (above 0.95)"
        )
        return
    scores = [name for name in rows[0] if f"{name}_error" in rows[0]]
    names = scores if everything else shown_in_charts(scores)
    headings = [metric(name).heading for name in names]
    print(f"{what:<8}" + "".join(f"{heading:>{len(heading) + 3}}" for heading in headings))
    for row in rows:
        cells = [metric(name).text(row[name]) for name in names]
        line = "".join(f"{cell:>{len(heading) + 3}}" for cell, heading in zip(cells, headings, strict=True))
        print(f"{row['value']:<8}{line}")
