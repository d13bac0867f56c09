"""Speed: our way of computing against reference mode, IODINE and GENESIS, and how cost grows.

Takes about half an hour on one core. It can be stopped and run again: what was measured is kept.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from emorl.evaluation.cost import Cost, Pass, costs, peak_memory
from emorl.experiments.base import Experiment, Job
from emorl.experiments.figure_10 import resized
from emorl.experiments.reference import Reference
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import provenance, table
from emorl.models import build
from emorl.models.base import Model
from emorl.runs.presets import PRESETS

MEMORY = "memory"  # before the labels of rows about memory
GIVEN_MEMORY = 12 * 2**30  # bytes: that of the paper's GPU
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Sizes:
    """Presets, image and batch sizes, and repeats of all measurements."""

    clevr: str  # preset, without the model
    tetrominoes: str
    size: int  # of CLEVR6 images
    batch: int
    tetrominoes_batch: int
    repeats: int
    sizes: tuple[int, ...]  # of images, to see how cost grows


FULL = Sizes("clevr6-paper", "tetrominoes-paper", 96, 4, 16, 7, (48, 64, 96, 128))
TINY = Sizes("tetrominoes-tiny", "tetrominoes-tiny", 35, 2, 2, 2, (24, 35))


def compiled(config: Any) -> Model:
    """Returns a model as with `--train.compile`. The first timed pass compiles; the median ignores that outlier."""
    model = build(config)
    model.compile_parts()
    return model


def timings(s: Sizes) -> dict[str, dict[str, Pass]]:
    """Passes whose times are compared, group by group; those of a group take turns."""
    config = resized(PRESETS[f"efficient-morl/{s.clevr}"].model, s.size)
    ours, reference = partial(build, config), partial(Reference, config)
    shapes = PRESETS[f"efficient-morl/{s.tetrominoes}"].model
    others = {kind: partial(build, PRESETS[f"{kind}/{s.clevr}"].model) for kind in ("iodine", "genesis")}
    growing = {size: partial(build, resized(config, size)) for size in s.sizes}
    train = partial(Pass, batch_size=s.batch, training=True)
    return {
        "training, CLEVR6, I=3": {
            "ours": train(ours, num_steps=3),
            "ours, compiled": train(partial(compiled, config), num_steps=3),
            "reference": train(reference, num_steps=3),
        },
        "training, Tetrominoes, I=3": {
            "ours": Pass(partial(build, shapes), s.tetrominoes_batch, training=True, num_steps=3),
            "reference": Pass(partial(Reference, shapes), s.tetrominoes_batch, training=True, num_steps=3),
        },
        "test, CLEVR6": {
            "ours, I=0": Pass(ours, s.batch, num_steps=0),
            "ours, I=1": Pass(ours, s.batch, num_steps=1),
            "reference, I=0": Pass(reference, s.batch, num_steps=0),
            "IODINE, 5 steps": Pass(others["iodine"], s.batch, num_steps=5),
            "GENESIS": Pass(others["genesis"], s.batch),
        },
        "growth with pixels": {str(n**2): train(make, num_steps=1) for n, make in growing.items()},
        "growth with K": {str(K): train(ours, num_slots=K, num_steps=1) for K in (3, 5, 7, 11)},
        "growth with I": {str(I): train(ours, num_steps=I) for I in (0, 1, 3, 5)},
    }


def memories(s: Sizes) -> dict[str, Pass]:
    """Training passes whose memory is compared."""
    config = resized(PRESETS[f"efficient-morl/{s.clevr}"].model, s.size)
    makers: dict[str, Callable[[], Model]] = {
        "ours": partial(build, config),
        "reference": partial(Reference, config),
    }
    found = {f"ours, I={I}": Pass(makers["ours"], s.batch, training=True, num_steps=I) for I in (0, 1, 3, 5)}
    found["reference, I=3"] = Pass(makers["reference"], s.batch, training=True, num_steps=3)
    for who in makers:  # a second batch size, for the slope
        found[f"{who}, I=3, half the batch"] = replace(found[f"{who}, I=3"], batch_size=s.batch // 2)
    return found


def measure(job: Job) -> Iterator[Row]:
    """A row for each pass: its time and arithmetic per image, or the memory of a batch."""
    sizes = TINY if job.scale == "tiny" else FULL
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as in training
    done = {row.label: row for row in job.done}
    for name, group in timings(sizes).items():
        labels = [f"{name}: {who}" for who in group]
        if not all(label in done for label in labels):
            job.say(f"timing {name} ...")
            found = costs(dict(zip(labels, group.values(), strict=True)), repeats=sizes.repeats)
            done |= {
                label: Row(label, described(cost) | {"batch": one.batch_size, "repeats": sizes.repeats})
                for (label, cost), one in zip(found.items(), group.values(), strict=True)
            }
        yield from (done[label] for label in labels)
    for who, one in memories(sizes).items():
        label = f"{MEMORY}: {who}"
        if label not in done:
            job.say(f"memory of {who} ...")
            done[label] = Row(label, {"bytes": peak_memory([one])[0], "batch": one.batch_size})
        yield done[label]


def described(cost: Cost) -> dict[str, float]:
    """Returns median and quartiles of the time in ms, and GFLOP, per image."""
    low, median, high = (1000 * value for value in cost.quartiles)
    return {"ms": median, "ms_low": low, "ms_high": high, "gflop": cost.flops / 1e9}


# What the measurements come to: ratios beside their targets, and slopes.


@dataclass(frozen=True)
class Target:
    """A ratio and what it should be."""

    what: str
    unit: str  # of the ratio, in the README; empty: not shown there
    measured: float
    bound: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound

    @property
    def rule(self) -> str:
        return f"at {'most' if self.at_most else 'least'} {self.bound:g}"


def line(points: Numbers) -> dict[str, float]:
    """Returns the straight line fitted to (x, y), and the largest distance of a point from it, relative to its y."""
    x, y = [float(key) for key in points], list(points.values())
    slope, intercept = statistics.linear_regression(x, y)
    worst = max(abs(intercept + slope * a - b) / b for a, b in zip(x, y, strict=True))
    return {"slope": slope, "intercept": intercept, "worst_deviation": worst}


def largest_batch(memory: Numbers, who: str, batch: int) -> float:
    """How many images of a training step at I=3 fit in the given memory, by the slope over two batch sizes."""
    half, whole = memory[f"{who}, I=3, half the batch"], memory[f"{who}, I=3"]
    per_image = (whole - half) / (batch - batch // 2)
    return (GIVEN_MEMORY - (whole - batch * per_image)) / per_image


def grouped(result: Result, value: str) -> dict[str, dict[str, float]]:
    """Group -> member -> value, of the rows that have it."""
    found: dict[str, dict[str, float]] = {}
    for row in result.rows:
        if value in row.values:
            group, _, who = row.label.partition(": ")
            found.setdefault(group, {})[who] = row.values[value]
    return found


def targets(result: Result) -> list[Target]:
    """Every ratio, from all rows."""
    ms, memory = grouped(result, "ms"), grouped(result, "bytes")[MEMORY]
    batch = next(row.values["batch"] for row in result.rows if row.label == f"{MEMORY}: ours, I=3")
    clevr, shapes, test = (
        ms[name] for name in ("training, CLEVR6, I=3", "training, Tetrominoes, I=3", "test, CLEVR6")
    )
    largest = {who: largest_batch(memory, who, batch) for who in ("ours", "reference")}
    step, zero = "training step, {}, I=3: {}", "test time, I={}: times faster than {}"
    faster = "times faster than reference"
    return [
        Target(step.format("CLEVR6", faster), "times as fast", clevr["reference"] / clevr["ours"], 1.8),
        Target(step.format("CLEVR6", "the same with torch.compile"), "times as fast with `--train.compile`",
               clevr["reference"] / clevr["ours, compiled"], 2.5),
        Target(step.format("Tetrominoes", faster), "times as fast", shapes["reference"] / shapes["ours"], 2),
        Target(zero.format(0, "reference"), "times as fast", test["reference, I=0"] / test["ours, I=0"], 1.5),
        Target(zero.format(0, "IODINE, 5 steps"), "", test["IODINE, 5 steps"] / test["ours, I=0"], 10),
        Target(zero.format(0, "GENESIS"), "", test["GENESIS"] / test["ours, I=0"], 1),
        Target(zero.format(1, "GENESIS"), "", test["GENESIS"] / test["ours, I=1"], 1),
        Target("largest batch in 12 GiB, I=3: times that of reference", "times as large",
               largest["ours"] / largest["reference"], 3),
        Target("training memory, CLEVR6, I=3: share of reference", "of it",
               memory["ours, I=3"] / memory["reference, I=3"], 0.4, at_most=True),
        Target("training memory, CLEVR6, I=3: times that at I=0", "", memory["ours, I=3"] / memory["ours, I=0"],
               1.1, at_most=True),
    ]  # fmt: skip


def sections(result: Result) -> dict[str, str]:
    """All of it for the page about efficiency, the ratios to reference mode for the README."""
    ratios = [
        [one.what, f"{one.measured:.2f}", one.rule, "yes" if one.is_met else "no"] for one in targets(result)
    ]
    passes = [
        [row.label, f"{v['ms']:.1f} ({v['ms_low']:.1f} to {v['ms_high']:.1f})", f"{v['gflop']:.1f}"]
        for row in result.rows
        if "ms" in (v := row.values)
    ]
    memory = grouped(result, "bytes")[MEMORY]
    growth = [
        slope(f"time with {name}", line(grouped(result, "ms")[f"growth with {name}"]), factor, unit)
        for name, factor, unit in (("pixels", 1000, "ms per thousand pixels"), ("K", 1, "ms per slot"),
                                   ("I", 1, "ms per step"))
    ]  # fmt: skip
    flat = line({str(I): memory[f"ours, I={I}"] / 2**20 for I in (0, 1, 3, 5)})
    growth.append(slope("memory with I", flat, 1, "MiB per step"))
    parts = [
        f"`emorl reproduce speed`. {provenance(result)}",
        table(["what", "measured", "target", "met"], ratios),
        table(["pass", "CPU ms per image (middle half)", "GFLOP per image"], passes),
        table(
            ["training step, CLEVR6", "MiB per batch"],
            [[who, f"{b / 2**20:.0f}"] for who, b in memory.items()],
        ),
        table(["training step of ours grows", "per unit", "off a straight line by at most"], growth),
    ]
    short = [
        [one.what.partition(": ")[0], f"{one.measured:.2g} {one.unit}"] for one in targets(result) if one.unit
    ]
    return {
        "docs/efficiency.md#speed": "\n\n".join(parts),
        "README.md#speed": table(["EfficientMORL against reference mode, same results", ""], short),
    }


def slope(what: str, fit: Numbers, factor: float, unit: str) -> list[str]:
    """Returns a table row: what grows, by how much per `unit`, and how far points are off a straight line."""
    return [what, f"{factor * fit['slope']:.3g} {unit}", f"{100 * fit['worst_deviation']:.0f} %"]


EXPERIMENT = Experiment(
    "Our way of computing against reference mode",
    measure,
    protocol="CLEVR6 and Tetrominoes configurations, untrained, one core, seven repeats in turns",
    sections=sections,
)
