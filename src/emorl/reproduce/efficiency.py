"""What a pass of every model costs at several image sizes: the rows of `emorl bench` and of `figure-10`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from emorl.errors import UserError, nearest
from emorl.evaluation.efficiency import Pass, costs, parameters, refines_at_will
from emorl.evaluation.memory import peak_memory
from emorl.geco import GecoConfig
from emorl.models import build
from emorl.plots.efficiency import efficiency_figure
from emorl.plots.style import save_chart
from emorl.report.published import SYSTEMS
from emorl.reproduce.trained import Row, Trained
from emorl.runs.presets import PRESETS

CLEVR6 = tuple(name for name in PRESETS if name.endswith("/clevr6"))
STEPS = (0, 1, 3)


@dataclass(frozen=True)
class Cell:
    """One model at one size of image and batch, with one budget of refinement."""

    preset: str
    image_size: int
    forward: Pass
    training: Pass

    @property
    def label(self) -> str:
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
    """Every combination there is; what a model refuses, such as a size, is said and left out.

    I is varied where refinement can be left out; other models iterate as they were published.
    """
    found, complaints = [], []
    for name in names:
        for size in sizes:
            try:
                make = partial(build, resized(configuration(name), size))
                parameters(make)
            except UserError as error:
                complaints.append(f"{name} at {size}x{size}: {error}")
                continue
            for I in steps if refines_at_will(make) else (None,):
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


def configuration(name: str) -> Any:
    """The model of a preset."""
    if name not in PRESETS:
        raise UserError(f"There is no preset {name!r}{nearest(name, PRESETS)}")
    return PRESETS[name].model


def resized(config: Any, size: int) -> Any:
    """The same model for images of another size."""
    if isinstance(getattr(config, "geco", None), GecoConfig):
        # Its target was for the old size; out of reach or not, a pass costs the same.
        config = replace(config, geco=replace(config.geco, allow_unreachable=True))
    return replace(config, image_size=size)


def measure(
    chosen: Sequence[Cell],
    *,
    repeats: int = 5,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """One row of numbers per cell, per image where that makes sense."""
    rounds = len(chosen) * 2
    total = (repeats + 2) * rounds
    passes = {
        (n, one.training): one for n, cell in enumerate(chosen) for one in (cell.forward, cell.training)
    }
    found = costs(passes, repeats=repeats, progress=lambda done, _: progress(done, total))
    rows = []
    for n, cell in enumerate(chosen):
        row: Row = {
            "label": cell.label, "preset": cell.preset, "image_size": cell.image_size, "seed": 0,
            "batch_size": cell.forward.batch_size, "steps": cell.forward.num_steps,
            "parameters": parameters(cell.forward.make),
        }  # fmt: skip
        memories = peak_memory([cell.forward, cell.training])
        for one, memory in zip((cell.forward, cell.training), memories, strict=True):
            mode = "training" if one.training else "forward"
            cost = found[n, one.training]
            low, median, high = (1000 * value for value in cost.quartiles)
            row |= {f"{mode}_ms": median, f"{mode}_ms_low": low, f"{mode}_ms_high": high}
            row |= {f"{mode}_images_per_second": 1000 / median, f"{mode}_gflop": cost.flops / 1e9}
            row[f"{mode}_mib"] = memory / one.batch_size / 2**20
        rows.append(row)
        progress((repeats + 1) * rounds + 2 * (n + 1), total)
    return rows


# Figure 10: times are for the paper's batch.


def passes(trained: Sequence[Trained]) -> list[Row]:
    rows = measure(cells(sizes=(64, 96), batch_sizes=(4,)), repeats=3)
    return [row | {"label": f"{row['label']}, {row['image_size']}x{row['image_size']}"} for row in rows]


def draw_passes(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    save_chart(efficiency_figure([row | {"label": row["label"].rsplit(",", 1)[0]} for row in rows]), path)
