"""What the measurements of speed come to: ratios beside their targets, slopes, and the parts of pages about them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emorl.experiments.results import Result
from emorl.experiments.tables import columns, provenance, table

# Labels of rows are "group: member".
CLEVR, SHAPES, TEST = "training, CLEVR6, I=3", "training, Tetrominoes, I=3", "test, CLEVR6"
DEFAULTS = "glibc's defaults"  # after the name of a group that was measured without keeping freed memory
MEMORY = "memory"
KERNELS = "GFLOP/s of a decoder's convolution"
SHARES = "shares of a training step, CLEVR6, I=3"
PAGES = "microseconds of the system per page of new memory"
GIVEN_MEMORY = 12 * 2**30  # bytes: that of the paper's GPU
PLACES = ("docs/efficiency.md#speed", "docs/efficiency.md#short")
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Target:
    """A ratio and what it should be."""

    what: str
    measured: float
    bound: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the measured ratio is on the right side of the bound."""
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


@dataclass(frozen=True)
class Ratio:
    """How many times faster than reference mode a pass is, by what is done with freed memory."""

    what: str
    kept: float  # both keep it
    defaults: float  # neither does
    usual: float  # ours does, as `emorl train` has it; reference mode does not, like a program without that setting


def grouped(result: Result, value: str) -> dict[str, dict[str, float]]:
    """Group -> member -> value, of the rows that have it."""
    found: dict[str, dict[str, float]] = {}
    for row in result.rows:
        if value in row.values:
            group, _, who = row.label.partition(": ")
            found.setdefault(group, {})[who] = row.values[value]
    return found


def ratios(result: Result) -> list[Ratio]:
    """Ours against reference mode, from all rows."""
    ms = grouped(result, "ms")
    found = []
    for what, group, tail in (
        ("training step, Tetrominoes, I=3", SHAPES, ""),
        ("training step, CLEVR6, I=3", CLEVR, ""),
        ("test time, CLEVR6, I=0", TEST, ", I=0"),
        ("test time, CLEVR6, I=3", TEST, ", I=3"),
    ):
        kept, defaults = ms[group], ms[f"{group}, {DEFAULTS}"]
        ours, reference = f"ours{tail}", f"reference{tail}"
        found.append(
            Ratio(
                what,
                kept[reference] / kept[ours],
                defaults[reference] / defaults[ours],
                defaults[reference] / kept[ours],
            )
        )
    return found


def targets(result: Result) -> list[Target]:
    """Every ratio that has a target, from all rows. Both sides keep freed memory, where nothing else is said."""
    ms, memory = grouped(result, "ms"), grouped(result, "bytes")[MEMORY]
    batch = next(row.values["batch"] for row in result.rows if row.label == f"{MEMORY}: ours, I=3")
    largest = {who: largest_batch(memory, who, batch) for who in ("ours", "reference")}
    found = []
    for ratio in ratios(result):
        bound = 2.8 if ratio.what.startswith("training") else 1.5
        found += [
            Target(f"{ratio.what}: times faster than reference", ratio.kept, bound),
            Target(f"{ratio.what}: the same, glibc's defaults for both", ratio.defaults, bound),
            Target(f"{ratio.what}: the same, glibc's defaults for reference alone", ratio.usual, bound),
        ]
    if compiled := ms.get(f"{CLEVR}, compiled"):
        what = "training step, CLEVR6, I=3: times faster than reference, compiled"
        found.append(Target(what, ms[CLEVR]["reference"] / compiled["ours"], 2.5))
    test, zero = ms[TEST], "test time, CLEVR6, I={}: times faster than {}"
    return [
        *found,
        Target(zero.format(0, "IODINE, 5 steps"), test["IODINE, 5 steps"] / test["ours, I=0"], 10),
        Target(zero.format(0, "GENESIS"), test["GENESIS"] / test["ours, I=0"], 1),
        Target(zero.format(1, "GENESIS"), test["GENESIS"] / test["ours, I=1"], 1),
        Target("largest batch in 12 GiB, I=3: times that of reference", largest["ours"] / largest["reference"], 3),
        Target("training memory, CLEVR6, I=3: share of reference",
               memory["ours, I=3"] / memory["reference, I=3"], 0.4, at_most=True),
        Target("training memory, CLEVR6, I=3: times that at I=0", memory["ours, I=3"] / memory["ours, I=0"],
               1.1, at_most=True),
    ]  # fmt: skip


def line(points: Numbers) -> dict[str, float]:
    """Returns the straight line fitted to (x, y), and the largest distance of a point from it, relative to its y."""
    x, y = [float(key) for key in points], list(points.values())
    slope, intercept = statistics.linear_regression(x, y)
    worst = max(abs(intercept + slope * a - b) / b for a, b in zip(x, y, strict=True))
    return {"slope": slope, "intercept": intercept, "worst_distance": worst}


def largest_batch(memory: Numbers, who: str, batch: int) -> float:
    """How many images of a training step at I=3 fit in the given memory, by the slope over two batch sizes."""
    half, whole = memory[f"{who}, I=3, half the batch"], memory[f"{who}, I=3"]
    per_image = (whole - half) / (batch - batch // 2)
    return (GIVEN_MEMORY - (whole - batch * per_image)) / per_image


def sections(result: Result) -> dict[str, str]:
    """All of it for the page about efficiency, whose beginning has the ratios to reference mode."""
    ratio_cells: dict[str, Callable[[Target], str]] = {
        "what": lambda one: one.what,
        "measured": lambda one: f"{one.measured:.2f}",
        "target": lambda one: f"at {'most' if one.at_most else 'least'} {one.bound:g}",
        "met": lambda one: "yes" if one.is_met else "no",
    }
    pass_cells: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "pass": lambda v: v["label"],
        "CPU ms per image (middle half)": lambda v: (
            f"{v['ms']:.1f} ({v['ms_low']:.1f} to {v['ms_high']:.1f})"
        ),
        "of it in the system": lambda v: f"{v.get('system_ms', 0):.1f}",
        "GFLOP per image": lambda v: f"{v['gflop']:.1f}",
        "GFLOP/s": lambda v: f"{v['gflop'] / v['ms'] * 1000:.0f}",
    }
    timed = [{"label": row.label, **row.values} for row in result.rows if "ms" in row.values]
    memory = grouped(result, "bytes")[MEMORY]
    growth = [
        slope(f"time with {name}", line(grouped(result, "ms")[f"growth with {name}"]), factor, unit)
        for name, factor, unit in (("pixels", 1000, "ms per thousand pixels"), ("K", 1, "ms per slot"),
                                   ("I", 1, "ms per step"))
    ]  # fmt: skip
    flat = line({str(I): memory[f"ours, I={I}"] / 2**20 for I in (0, 1, 3, 5)})
    growth.append(slope("memory with I", flat, 1, "MiB per step"))
    parts = [
        f"`emorl reproduce speed`. {provenance(result)}{circumstances(result)}",
        columns(targets(result), ratio_cells),
        columns(timed, pass_cells),
        table(
            ["training step, CLEVR6", "MiB per batch"],
            [[who, f"{b / 2**20:.0f}"] for who, b in memory.items()],
        ),
        table(["training step of ours grows", "per unit", "off a straight line by at most"], growth),
        table(["what limits it", ""], limits(result)),
    ]
    short = [
        [one.what, *(f"{times:.1f} times as fast" for times in (one.kept, one.defaults))]
        for one in ratios(result)
    ]
    share = memory["ours, I=3"] / memory["reference, I=3"]
    short.append(["training memory, CLEVR6, I=3", f"{share:.2g} of it", ""])
    head = ["EfficientMORL against reference mode, same results", "freed memory kept", "glibc's defaults"]
    return dict(zip(PLACES, ["\n\n".join(parts), table(head, short)], strict=True))


def limits(result: Result) -> list[list[str]]:
    """Table rows: the speed of single convolutions, where the time goes, and what each page of memory has cost."""
    found = {row.label: row.values for row in result.rows}
    lines = [[f"{KERNELS}, {way}", f"{speed:.0f}"] for way, speed in found[KERNELS].items()]
    lines += [[f"{SHARES}, {part}", f"{100 * share:.0f} %"] for part, share in found[SHARES].items()]
    if found[PAGES]:
        lines.append(
            [f"{PAGES}, time after time", ", ".join(f"{cost:.1f}" for cost in found[PAGES].values())]
        )
    return lines


def circumstances(result: Result) -> str:
    """How busy the machine was, and what tuned its allocator, in a sentence; empty where that was not recorded."""
    stamp = result.stamp
    if stamp.get("load") is None:
        return ""
    tuned = ", ".join(f"{name} {value}" for name, value in dict(stamp.get("allocator") or {}).items())
    return f" Load {stamp['load']:g}, {stamp.get('threads')} thread, allocator: {tuned or 'as it comes'}."


def slope(what: str, fit: Numbers, factor: float, unit: str) -> list[str]:
    """Returns a table row: what grows, by how much per `unit`, and how far points are off a straight line."""
    return [what, f"{factor * fit['slope']:.3g} {unit}", f"{100 * fit['worst_distance']:.0f} %"]
