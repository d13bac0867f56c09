"""emorl bench"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import tyro

from emorl.cli.options import Device, check_options, choose_device
from emorl.experiments.figure_10 import CLEVR6, STEPS, cells, measure_cells
from emorl.experiments.results import Result, Row, check_result
from emorl.files import make_directory
from emorl.plots.files import save_chart
from emorl.plots.lines import cost_chart
from emorl.runs.allocator import keep_freed_memory
from emorl.runs.provenance import stamp
from emorl.training.console import progress_bar, say

COLUMNS = {  # heading -> key of a row, its format
    "parameters": ("parameters", "{:,}"),
    "test ms": ("forward_ms", "{:.1f}"),
    "images/s": ("forward_images_per_second", "{:.1f}"),
    "GFLOP": ("forward_gflop", "{:.1f}"),
    "MiB": ("forward_mib", "{:.0f}"),
    "train ms": ("training_ms", "{:.1f}"),
    "train images/s": ("training_images_per_second", "{:.1f}"),
    "train GFLOP": ("training_gflop", "{:.1f}"),
    "train MiB": ("training_mib", "{:.0f}"),
}


def bench_command(
    presets: tyro.conf.Positional[tuple[str, ...]] = CLEVR6,
    sizes: tuple[int, ...] = (),
    batch_sizes: tuple[int, ...] = (),
    steps: tuple[int, ...] = STEPS,
    repeats: int | None = None,
    quick: bool = False,
    device: Device = "auto",
    threads: int = 1,
    out: Path = Path("runs/bench"),
) -> None:
    """Measure time, memory, arithmetic and parameters of models on this machine: the paper's Figure 10.

    Test time is one inference, training one forward and one backward pass. All passes take turns, and the median of
    the repetitions is shown, with the middle half of them in the file and in the figure. On a CPU, time is that of the
    processor, so other programs hardly matter; memory is what a pass takes beyond the model. All of it is per image.
    The default takes about an hour on one core.

    Args:
        presets: Names from `emorl list`; each model's CLEVR6 configuration if left out.
        sizes: Sides of the square images; 35 64 96 128 if left out.
        batch_sizes: Images per pass; 4, as in the paper, if left out.
        steps: Refinement steps I, for models that can do without; others iterate as they were published.
        repeats: How often each pass is timed; 5 if left out.
        quick: Less than three minutes: small images, one at a time, timed twice, unless said otherwise.
        device: auto takes a GPU if there is one.
        threads: Of the CPU.
        out: Folder for bench.json and bench.png.
    """
    repeats = (2 if quick else 5) if repeats is None else repeats
    sizes = sizes or ((32, 64) if quick else (35, 64, 96, 128))
    batch_sizes = batch_sizes or ((1,) if quick else (4,))
    check_options(repeats=repeats, threads=threads, sizes=sizes, batch_sizes=batch_sizes, steps=steps)
    where = choose_device(device).type
    check_result(out / "bench.json")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # as in training, and so is the next line
    keep_freed_memory()
    chosen = cells(
        presets, sizes=sizes, batch_sizes=batch_sizes, steps=steps or STEPS[:1], device=where, say=say
    )
    make_directory(out)
    say(f"Measuring {len(chosen)} combinations, {repeats} times each, on {where}.")
    with progress_bar("measuring") as progress:
        rows = list(measure_cells(chosen, repeats=repeats, progress=progress))
    print_rows(rows)
    Result("bench", rows, stamp(), settings={"device": where, "repeats": repeats}).write(out / "bench.json")
    save_chart(cost_chart([{**row.values, "label": row.label} for row in rows]), out / "bench.png")
    say(f"Wrote {out / 'bench.json'} and drew {out / 'bench.png'}.")


def print_rows(rows: Sequence[Row]) -> None:
    """The numbers as a table."""
    print(f"{'':<24}{'size':>5}{'batch':>6}" + "".join(f"{heading:>15}" for heading in COLUMNS))
    for row in rows:
        cells = [form.format(row.values[key]) for key, form in COLUMNS.values()]
        print(
            f"{row.label:<24}{row.values['image_size']:>5}{row.values['batch_size']:>6}"
            + "".join(f"{c:>15}" for c in cells)
        )
