"""Brings the README up to date with the committed results: the table of seeds and the learning curves.

python benchmarks/readme.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from emorl.report.charts import learning_curves

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "efficient-morl--tetrominoes-fast.json"
PAPER = {
    "ari": 0.982,
    "mse": 7.0e-4,
    "kl_refined": 98.5,
}  # Table 1 and the ablation table, after 200,000 steps


def table(results: dict[str, Any]) -> str:
    """The seeds as Markdown."""
    lines = [
        "| seed | ARI | ARI at I = 0 | MSE (1e-4) | KL refined | steps | CPU minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for seed in results["seeds"]:
        numbers = f"{seed['ari']:.3f} | {seed['ari_without_refinement']:.3f} | {1e4 * seed['mse']:.1f}"
        cost = f"{seed['kl_refined']:.0f} | {seed['steps']} | {seed['cpu_minutes']:.0f}"
        lines.append(f"| {seed['seed']} | {numbers} | {cost} |")
    s = results["summary"]
    mean = [
        f"{s['ari']['mean']:.3f} ± {s['ari']['sd']:.3f}",
        f"{s['ari_without_refinement']['mean']:.3f} ± {s['ari_without_refinement']['sd']:.3f}",
        f"{1e4 * s['mse']['mean']:.1f} ± {1e4 * s['mse']['sd']:.1f}",
        f"{s['kl_refined']['mean']:.0f} ± {s['kl_refined']['sd']:.0f}",
    ]
    lines.append(f"| **mean ± sd** | {' | '.join(mean)} | | |")
    lines.append("| paper, 5 seeds | 0.982 ± 0.018 | | 7.0 ± 6.0 | 99 ± 21 | 200000 | on two GPUs |")
    return "\n".join(lines)


def updated(readme: str, results: dict[str, Any]) -> str:
    """Returns the README with the table between its two markers replaced."""
    pattern = r"(<!-- seeds -->\n).*?(\n<!-- /seeds -->)"
    return re.sub(pattern, lambda match: match[1] + table(results) + match[2], readme, flags=re.DOTALL)


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    readme.write_text(updated(readme.read_text(encoding="utf-8"), results), encoding="utf-8")
    curves = {f"seed {seed['seed']}": seed["curve"] for seed in results["seeds"]}
    learning_curves(curves, ROOT / "docs" / "images" / "learning.png", goals=PAPER)


if __name__ == "__main__":
    main()
