"""Speed: our way of computing against reference mode, IODINE and GENESIS, and how cost grows.

Takes about ten minutes on one idle core. It can be stopped and run again: what was measured is kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from statistics import median
from typing import Any

import torch
from torch import nn

from emorl.evaluation.cost import Cost, Pass, costs, peak_memory
from emorl.experiments.base import Experiment, Job
from emorl.experiments.reference import Reference
from emorl.experiments.results import Row
from emorl.experiments.scales import resized
from emorl.experiments.speed_limits import kernel_speeds, page_costs, time_shares
from emorl.experiments.speed_page import (
    CLEVR,
    DEFAULTS,
    KERNELS,
    MEMORY,
    PAGES,
    SHAPES,
    SHARES,
    TEST,
    sections,
)
from emorl.models import build
from emorl.models.base import Model
from emorl.models.efficient_morl_config import EfficientMORLConfig
from emorl.runs.allocator import is_memory_kept, keep_freed_memory
from emorl.runs.presets import PRESETS

Groups = dict[str, dict[str, Pass]]
Values = Callable[[], dict[str, Any]]  # measures the values of a row


@dataclass(frozen=True)
class Sizes:
    """Presets, image and batch sizes, and repeats of all measurements."""

    clevr: str  # preset, without the model
    tetrominoes: str
    size: int  # of CLEVR6 images
    batch: int
    tetrominoes_batch: int
    memory_batch: int
    repeats: int
    sizes: tuple[int, ...]  # of images, to see how cost grows

    @property
    def config(self) -> EfficientMORLConfig:
        """Of EfficientMORL for CLEVR6, at the size of the images."""
        found: EfficientMORLConfig = resized(PRESETS[f"efficient-morl/{self.clevr}"].model, self.size)
        return found


FULL = Sizes("clevr6-paper", "tetrominoes-paper", 96, 2, 32, 4, 5, (48, 64, 96, 128))
TINY = Sizes("tetrominoes-tiny", "tetrominoes-tiny", 35, 2, 2, 2, 2, (24, 35))


def compiled(config: Any) -> Model:
    """Returns a model as with `--train.compile`. The first timed pass compiles; the median ignores that outlier."""
    model = build(config)
    model.compile_parts()
    return model


def can_compile() -> bool:
    """Whether there is a C++ compiler, which `--train.compile` needs."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


def comparisons(s: Sizes) -> Groups:
    """Passes of ours and of reference mode, and of other systems at test time, group by group."""
    ours, reference = partial(build, s.config), partial(Reference, s.config)
    shapes = PRESETS[f"efficient-morl/{s.tetrominoes}"].model
    others = {kind: partial(build, PRESETS[f"{kind}/{s.clevr}"].model) for kind in ("iodine", "genesis")}
    train = partial(Pass, batch_size=s.batch, training=True, num_steps=3)
    return {
        CLEVR: {"ours": train(ours), "reference": train(reference)},
        SHAPES: {
            "ours": train(partial(build, shapes), batch_size=s.tetrominoes_batch),
            "reference": train(partial(Reference, shapes), batch_size=s.tetrominoes_batch),
        },
        TEST: {
            **{f"ours, I={I}": Pass(ours, s.batch, num_steps=I) for I in (0, 1, 3)},
            **{f"reference, I={I}": Pass(reference, s.batch, num_steps=I) for I in (0, 3)},
            "IODINE, 5 steps": Pass(others["iodine"], s.batch, num_steps=5),
            "GENESIS": Pass(others["genesis"], s.batch),
        },
    }


def growth(s: Sizes) -> Groups:
    """Training passes of ours over image sizes, slots and refinement steps."""
    ours, train = partial(build, s.config), partial(Pass, batch_size=s.batch, training=True)
    growing = {size: partial(build, resized(s.config, size)) for size in s.sizes}
    return {
        "growth with pixels": {str(n**2): train(make, num_steps=1) for n, make in growing.items()},
        "growth with K": {str(K): train(ours, num_slots=K, num_steps=1) for K in (3, 5, 7, 11)},
        "growth with I": {str(I): train(ours, num_steps=I) for I in (0, 1, 3, 5)},
    }


def memories(s: Sizes) -> Iterator[tuple[str, Values]]:
    """Training passes whose memory is compared: labels of rows, and what measures their values."""
    train = partial(Pass, batch_size=s.memory_batch, training=True)
    found = {f"ours, I={I}": train(partial(build, s.config), num_steps=I) for I in (0, 1, 3, 5)}
    found["reference, I=3"] = train(partial(Reference, s.config), num_steps=3)
    for who in ("ours", "reference"):  # a second batch size, for the slope
        found[f"{who}, I=3, half the batch"] = replace(found[f"{who}, I=3"], batch_size=s.memory_batch // 2)
    for who, one in found.items():
        yield f"{MEMORY}: {who}", partial(memory_of, one)


def memory_of(one: Pass) -> dict[str, Any]:
    """Returns the memory of a pass, and its batch size."""
    return {"bytes": peak_memory([one])[0], "batch": one.batch_size}


def limits(s: Sizes) -> Iterator[tuple[str, Values]]:
    """What limits speed: labels of rows, and what measures their values."""
    one = Pass(partial(build, s.config), s.batch, training=True, num_steps=3)
    model = one.make()
    wide = [part for part in model.decoder.modules() if isinstance(part, nn.Conv2d)][1]
    pictures = {"count": s.batch * s.config.num_slots, "size": s.size}
    yield KERNELS, lambda: {**kernel_speeds(wide, repeats=s.repeats, **pictures)}
    yield SHARES, lambda: {**time_shares(one, model)}
    yield PAGES, lambda: {str(n): cost for n, cost in enumerate(page_costs(s.repeats), start=1)}


def measure(job: Job) -> Iterator[Row]:
    """A row for each pass: its time and arithmetic per image, or the memory of a batch.

    What is compared is timed twice: as glibc treats memory by default, and with freed memory kept, as in training.
    That cannot be undone in a process, so the default comes first.
    """
    sizes = TINY if job.scale == "tiny" else FULL
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as in training
    done = {row.label: row for row in job.done}
    for name, group in comparisons(sizes).items():
        yield from timed(job, done, f"{name}, {DEFAULTS}", group, sizes.repeats)
    keep_freed_memory()
    for name, group in (comparisons(sizes) | growth(sizes)).items():
        yield from timed(job, done, name, group, sizes.repeats)
    if can_compile():
        group = {"ours": Pass(partial(compiled, sizes.config), sizes.batch, training=True, num_steps=3)}
        yield from timed(job, done, f"{CLEVR}, compiled", group, sizes.repeats)
    else:
        job.say("There is no C++ compiler here: what is compiled is not measured.")
    for label, values in chain(limits(sizes), memories(sizes)):
        if label not in done:
            job.say(f"measuring {label} ...")
            done[label] = Row(label, values())
        yield done[label]


def timed(job: Job, done: dict[str, Row], name: str, group: dict[str, Pass], repeats: int) -> Iterator[Row]:
    """The rows of a group, whose passes take turns; measured unless all of them are in `done`."""
    labels = [f"{name}: {who}" for who in group]
    if not all(label in done for label in labels):
        job.say(f"timing {name} ...")
        found = costs(dict(zip(labels, group.values(), strict=True)), repeats=repeats)
        memory = "kept" if is_memory_kept() else "given back"
        for (label, cost), one in zip(found.items(), group.values(), strict=True):
            more = {"batch": one.batch_size, "repeats": repeats, "freed memory": memory}
            done[label] = Row(label, described(cost) | more)
    yield from (done[label] for label in labels)


def described(cost: Cost) -> dict[str, Any]:
    """Returns times in ms, pages of memory handed out, and GFLOP, per image: medians, and quartiles of the time."""
    low, middle, high = (1000 * value for value in cost.quartiles)
    found = {"ms": middle, "ms_low": low, "ms_high": high, "gflop": cost.flops / 1e9}
    if cost.system:
        found |= {"system_ms": 1000 * median(cost.system), "page_faults": median(cost.faults)}
    return found


EXPERIMENT = Experiment(
    "Our way of computing against reference mode",
    measure,
    protocol="CLEVR6 and Tetrominoes configurations, untrained, one core, five repeats in turns",
    sections=sections,
)
