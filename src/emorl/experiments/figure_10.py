"""Figure 10: time, memory, arithmetic and parameters of a pass of every model. `emorl bench` measures the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.evaluation.cost import Pass, costs, parameters, peak_memory
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Row
from emorl.experiments.scales import resized
from emorl.models import MODELS, build, kind_of
from emorl.plots.files import save_chart
from emorl.plots.lines import cost_chart
from emorl.report.paper import SYSTEMS
from emorl.runs.presets import PRESETS, preset
from emorl.runs.run import Run
from emorl.types import Progress, silent

CLEVR6 = tuple(name for name in PRESETS if name.endswith("/clevr6-paper"))
STEPS = (0, 1, 3)
METRICS = {
    "parameters": Metric("parameters", "numbers that are learned", 0),
    "forward_ms": Metric("test, ms per image", "processor time of an inference", 0),
    "training_ms": Metric("training, ms per image", "processor time of a forward and a backward pass", 0),
    "forward_mib": Metric("test, MiB per image", "at its height, beyond the model", 0),
    "training_mib": Metric("training, MiB per image", "at its height, beyond the model", 0),
}


@dataclass(frozen=True)
class Cell:
    """One model at one size of image and batch, with one budget of refinement."""

    preset: str
    image_size: int
    forward: Pass
    training: Pass

    @property
    def label(self) -> str:
        """The system as it is called in print, and I if it can be chosen."""
        kind, I = self.preset.split("/")[0], self.forward.num_steps
        return SYSTEMS.get(kind, kind) + ("" if I is None else f", I={I}")


def cells(
    names: Sequence[str] = CLEVR6,
    *,
    sizes: Sequence[int],
    batch_sizes: Sequence[int],
    steps: Sequence[int] = STEPS,
    device: str = "cpu",
    say: Callable[[str], None] = lambda message: None,
) -> list[Cell]:
    """Returns a cell for every combination; sizes that a model refuses are reported by `say` and left out.

    I is varied for models that can do without refinement; the others iterate as they were published.
    """
    found, complaints = [], []
    for name in names:
        for size in sizes:
            try:
                config = resized(preset(name).model, size)
                make = partial(build, config)
                parameters(make)
            except UserError as error:
                complaints.append(f"{name} at {size}x{size}: {error}")
                continue
            for I in steps if MODELS[kind_of(config)].least_steps == 0 else (None,):
                for B in batch_sizes:
                    forward = Pass(make, B, num_steps=I, device=device)
                    found.append(Cell(name, size, forward, replace(forward, training=True)))
    if not found:
        raise UserError(
            complaints[-1] if complaints else "There is nothing to measure; name a model and a size."
        )
    for complaint in complaints:
        say(f"Left out: {complaint}")
    return found


def measure_cells(
    chosen: Sequence[Cell],
    *,
    repeats: int = 5,
    progress: Progress = silent,
) -> Iterator[Row]:
    """One row of numbers per cell, per image where that makes sense."""
    rounds = len(chosen) * 2
    total = (repeats + 2) * rounds
    passes = {
        (n, one.training): one for n, cell in enumerate(chosen) for one in (cell.forward, cell.training)
    }
    found = costs(passes, repeats=repeats, progress=lambda done, _: progress(done, total))
    for n, cell in enumerate(chosen):
        values: dict[str, Any] = {
            "preset": cell.preset, "image_size": cell.image_size, "batch_size": cell.forward.batch_size,
            "I": cell.forward.num_steps, "repeats": repeats, "parameters": parameters(cell.forward.make),
        }  # fmt: skip
        memories = peak_memory([cell.forward, cell.training])
        for one, memory in zip((cell.forward, cell.training), memories, strict=True):
            mode = "training" if one.training else "forward"
            cost = found[n, one.training]
            low, median, high = (1000 * value for value in cost.quartiles)
            values |= {f"{mode}_ms": median, f"{mode}_ms_low": low, f"{mode}_ms_high": high}
            values |= {f"{mode}_images_per_second": 1000 / median, f"{mode}_gflop": cost.flops / 1e9}
            values[f"{mode}_mib"] = memory / one.batch_size / 2**20
        yield Row(cell.label, values)
        progress((repeats + 1) * rounds + 2 * (n + 1), total)


def measure(job: Job) -> Iterator[Row]:
    """At two sizes, with the paper's batch of 4."""
    if job.scale == "tiny":
        chosen = cells(("efficient-morl/tetrominoes-tiny",), sizes=(16, 24), batch_sizes=(1,), steps=(0,))
    else:
        chosen = cells(sizes=(64, 96), batch_sizes=(4,))
    for row in measure_cells(chosen, repeats=3):
        size = row.values["image_size"]
        yield replace(row, label=f"{row.label}, {size}x{size}")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws time against memory per image, a line over image sizes for each model and I."""
    lines = [{**row.values, "label": row.label.rsplit(",", 1)[0]} for row in rows]
    save_chart(cost_chart(lines), path)


EXPERIMENT = Experiment(
    "Time, memory and parameters of a pass",
    measure,
    tuple(METRICS),
    paper="Without refinement a pass is ten times as fast as IODINE's; with I <= 1 it is like Slot Attention's.",
    protocol="every model's CLEVR6 configuration, untrained, in batches of 4",
    draw=draw,
    metrics=METRICS,
)
