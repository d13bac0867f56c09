"""Brings README and docs up to date with the committed results: tables and learning curves.

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
EXPLORATION = ROOT / "benchmarks" / "results" / "exploration.json"
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


def exploration_table(experiments: list[dict[str, Any]]) -> str:
    """The experiments of docs/learning.md as Markdown: scores at 1000 and 2000 steps, and at the end."""
    lines = ["| what was tried | ARI 1000 | ARI 2000 | last step | ARI | MSE (1e-4) | KL refined | verdict |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for experiment in experiments:
        at = {point["step"]: point for point in experiment["curve"]}
        last = experiment["curve"][-1]
        early = [f"{at[step]['ari']:.2f}" if step in at else "" for step in (1000, 2000)]
        end = f"{last['step']} | {last['ari']:.3f} | {1e4 * last['mse']:.0f} | {last['kl_refined']:.0f}"
        lines.append(
            f"| {experiment['hypothesis']} | {' | '.join(early)} | {end} | {experiment['verdict']} |"
        )
    return "\n".join(lines)


def updated(text: str, name: str, content: str) -> str:
    """Returns `text` with what stands between the two markers `name` replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{content}\n{match[2]}", text, flags=re.DOTALL)


def rewrite(path: Path, name: str, content: str) -> None:
    path.write_text(updated(path.read_text(encoding="utf-8"), name, content), encoding="utf-8")


def main() -> None:
    experiments = json.loads(EXPLORATION.read_text(encoding="utf-8"))
    rewrite(ROOT / "docs" / "learning.md", "exploration", exploration_table(experiments))
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        rewrite(ROOT / "README.md", "seeds", table(results))
        curves = {f"seed {seed['seed']}": seed["curve"] for seed in results["seeds"]}
        learning_curves(curves, ROOT / "docs" / "images" / "learning.png", goals=PAPER)


if __name__ == "__main__":
    main()
