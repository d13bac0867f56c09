"""Measures our arithmetic against reference mode (reference.py), IODINE and GENESIS, and how cost grows.

    python benchmarks/speed.py

Takes about half an hour on one core. Can be stopped and run again: finished cells are kept; other settings begin anew.
Then brings docs/efficiency.md up to date; with --document it does only that. --quick uses tiny models and writes
elsewhere: it shows that the script works, and nothing more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from emorl.config import read_json
from emorl.evaluation.efficiency import Pass, costs
from emorl.evaluation.memory import peak_memory
from emorl.files import make_directory, write_json
from emorl.models import build
from emorl.models.base import Model
from emorl.reproduce.efficiency import resized
from emorl.runs.presets import PRESETS
from emorl.runs.provenance import environment
from readme import ROOT
from reference import Reference
from targets import conclusions, document

RESULTS = ROOT / "benchmarks" / "results" / "speed.json"


@dataclass(frozen=True)
class Scale:
    """The sizes of everything."""

    clevr: str  # preset, without the model
    tetrominoes: str
    size: int  # of CLEVR6 images
    batch: int
    tetrominoes_batch: int
    repeats: int
    sizes: tuple[int, ...]  # of images, to see how cost grows


FULL = Scale("clevr6", "tetrominoes", 96, 4, 16, 7, (48, 64, 96, 128))
QUICK = Scale("tetrominoes-tiny", "tetrominoes-tiny", 35, 2, 2, 2, (24, 35))

Group = dict[str, Pass]


def compiled(config: Any) -> Model:
    """As with `--train.compile`. The first of its timed passes is the one that compiles, and no median heeds it."""
    model = build(config)
    model.compile_parts()
    return model


def timings(s: Scale) -> dict[str, Group]:
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


def memories(s: Scale) -> dict[str, Pass]:
    """Training passes whose memory is compared."""
    config = resized(PRESETS[f"efficient-morl/{s.clevr}"].model, s.size)
    makers = {"ours": partial(build, config), "reference": partial(Reference, config)}
    found = {f"ours, I={I}": Pass(makers["ours"], s.batch, training=True, num_steps=I) for I in (0, 1, 3, 5)}
    found["reference, I=3"] = Pass(makers["reference"], s.batch, training=True, num_steps=3)
    for who in makers:  # a second batch size, for the slope
        found[f"{who}, I=3, half the batch"] = replace(found[f"{who}, I=3"], batch_size=s.batch // 2)
    return found


def measure(s: Scale, path: Path) -> dict[str, Any]:
    """Measures what `path` does not hold yet; it is written after every cell."""
    settings = {**vars(s), "threads": torch.get_num_threads()}
    settings = json.loads(json.dumps(settings))
    before = read_json(path) if path.exists() else {}
    cells = before["cells"] if before.get("settings") == settings else {"time": {}, "memory": {}}
    results = {"command": "python benchmarks/speed.py", "settings": settings, "cells": cells}
    results["environment"] = environment()
    for name, group in timings(s).items():
        if name not in cells["time"]:
            print(f"timing {name} ...", flush=True)
            found = costs(group, repeats=s.repeats, progress=every(len(group)))
            cells["time"][name] = {who: described(cost) for who, cost in found.items()}
            write_json(path, results)
    for name, one in memories(s).items():
        if name not in cells["memory"]:
            print(f"memory of {name} ...", flush=True)
            cells["memory"][name] = peak_memory([one])[0]
            write_json(path, results)
    results |= conclusions(cells, s.batch)
    write_json(path, results)
    return results


def every(n: int) -> Any:
    """Progress, once a round."""
    return lambda done, total: print(f"  {done // n} of {total // n}", flush=True) if done % n == 0 else None


def described(cost: Any) -> dict[str, float]:
    low, median, high = (1000 * value for value in cost.quartiles)
    return {"ms": median, "ms_low": low, "ms_high": high, "gflop": cost.flops / 1e9}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that it works")
    parser.add_argument("--document", action="store_true", help="only bring docs/efficiency.md up to date")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--results", type=Path, help="the JSON to write, and to go on from")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    torch.set_flush_denormal(True)  # as in training
    path = given.results or (Path("runs/speed-quick.json") if given.quick else RESULTS)
    if not given.document:
        make_directory(path.parent)
        for target in measure(QUICK if given.quick else FULL, path)["targets"]:
            print(f"{target['what']}: {target['measured']:.2f} ({target['target']})")
    if path == RESULTS:
        document(path)


if __name__ == "__main__":
    main()
