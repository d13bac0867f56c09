"""What the measurements of speed.py come to: ratios beside their targets, slopes, a section of docs/efficiency.md."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from emorl.config import read_json
from readme import ROOT, rewrite

DOCUMENT = ROOT / "docs" / "efficiency.md"
GIVEN_MEMORY = 12 * 2**30  # bytes: that of the paper's GPU
UNITS = {
    "times faster than reference": "times as fast",
    "the same with torch.compile": "times as fast with `--train.compile`",
    "times that of reference": "times as large",
    "share of reference": "of it",
}


def line(points: dict[str, float]) -> dict[str, float]:
    """The straight line through (x, y), and how far off it the worst point is, relative to that point."""
    x, y = [float(key) for key in points], list(points.values())
    slope, intercept = statistics.linear_regression(x, y)
    worst = max(abs(intercept + slope * a - b) / b for a, b in zip(x, y, strict=True))
    return {"slope": slope, "intercept": intercept, "worst_deviation": worst}


def largest_batch(memory: dict[str, float], who: str, batch: int) -> float:
    """How many images of a training step at I=3 fit in the given memory, by the slope over two batch sizes."""
    half, whole = memory[f"{who}, I=3, half the batch"], memory[f"{who}, I=3"]
    per_image = (whole - half) / (batch - batch // 2)
    return (GIVEN_MEMORY - (whole - batch * per_image)) / per_image


def conclusions(cells: dict[str, Any], batch: int) -> dict[str, Any]:
    """Ratios, targets and slopes, from all cells."""
    memory = cells["memory"]
    median = {
        name: {who: found["ms"] for who, found in group.items()} for name, group in cells["time"].items()
    }
    clevr, shapes, test = (
        median[name] for name in ("training, CLEVR6, I=3", "training, Tetrominoes, I=3", "test, CLEVR6")
    )
    batches = {who: largest_batch(memory, who, batch) for who in ("ours", "reference")}
    at_least = {
        "training step, CLEVR6, I=3: times faster than reference": (clevr["reference"] / clevr["ours"], 1.8),
        "training step, CLEVR6, I=3: the same with torch.compile": (clevr["reference"] / clevr["ours, compiled"], 2.5),
        "training step, Tetrominoes, I=3: times faster than reference": (shapes["reference"] / shapes["ours"], 2),
        "test time, I=0: times faster than reference": (test["reference, I=0"] / test["ours, I=0"], 1.5),
        "test time, I=0: times faster than IODINE, 5 steps": (test["IODINE, 5 steps"] / test["ours, I=0"], 10),
        "test time, I=0: times faster than GENESIS": (test["GENESIS"] / test["ours, I=0"], 1),
        "test time, I=1: times faster than GENESIS": (test["GENESIS"] / test["ours, I=1"], 1),
        "largest batch in 12 GiB, I=3: times that of reference": (batches["ours"] / batches["reference"], 3),
    }  # fmt: skip
    at_most = {
        "training memory, CLEVR6, I=3: share of reference": (memory["ours, I=3"] / memory["reference, I=3"], 0.4),
        "training memory, CLEVR6, I=3: times that at I=0": (memory["ours, I=3"] / memory["ours, I=0"], 1.1),
    }  # fmt: skip
    targets = [row(what, *values, values[0] >= values[1], "at least") for what, values in at_least.items()]
    targets += [row(what, *values, values[0] <= values[1], "at most") for what, values in at_most.items()]
    slopes = {name.removeprefix("growth with "): line(median[name]) for name in median if "growth" in name}
    flat = {str(I): memory[f"ours, I={I}"] / 2**20 for I in (0, 1, 3, 5)}
    return {"targets": targets, "ms": slopes, "mib": {"I": line(flat)}, "largest_batch": batches}


def row(what: str, measured: float, target: float, met: bool, rule: str) -> dict[str, Any]:
    return {"what": what, "measured": measured, "target": f"{rule} {target}", "met": met}


def section(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [f"`{results['command']}`", "", "| what | measured | target | met |", "|---|---|---|---|"]
    for target in results["targets"]:
        met = "yes" if target["met"] else "no"
        lines.append(f"| {target['what']} | {target['measured']:.2f} | {target['target']} | {met} |")
    lines += ["", "| pass | CPU ms per image (middle half) | GFLOP per image |", "|---|---|---|"]
    for name, group in results["cells"]["time"].items():
        for who, found in group.items():
            spread = f"{found['ms']:.1f} ({found['ms_low']:.1f} to {found['ms_high']:.1f})"
            lines.append(f"| {name}: {who} | {spread} | {found['gflop']:.1f} |")
    lines += ["", "| training step, CLEVR6 | MiB per batch |", "|---|---|"]
    lines += [f"| {who} | {size / 2**20:.0f} |" for who, size in results["cells"]["memory"].items()]
    lines += [
        "",
        "| training step of ours grows | per unit | off a straight line by at most |",
        "|---|---|---|",
    ]
    units = {"pixels": "ms per thousand pixels", "K": "ms per slot", "I": "ms per step"}
    for name, fit in results["ms"].items():
        slope = fit["slope"] * (1000 if name == "pixels" else 1)
        lines.append(
            f"| time with {name} | {slope:.3g} {units[name]} | {100 * fit['worst_deviation']:.0f} % |"
        )
    fit = results["mib"]["I"]
    lines.append(
        f"| memory with I | {fit['slope']:.3g} MiB per step | {100 * fit['worst_deviation']:.0f} % |"
    )
    return "\n".join(lines)


def headline(results: dict[str, Any]) -> str:
    """What of it is about reference mode, as Markdown."""
    lines = ["| EfficientMORL against the authors' arithmetic, same results | |", "|---|---|"]
    for target in results["targets"]:
        if "reference" in target["what"] or "torch.compile" in target["what"]:
            what, _, unit = target["what"].partition(": ")
            lines.append(f"| {what} | {target['measured']:.2g} {UNITS[unit]} |")
    return "\n".join(lines)


def document(results: Path) -> None:
    """Without results the sections stay empty."""
    if results.exists():
        rewrite(DOCUMENT, "speed", section(read_json(results)))
        rewrite(ROOT / "README.md", "speed", headline(read_json(results)))
