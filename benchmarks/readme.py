"""Brings README and docs up to date with the committed results: tables, learning curves and the picture.

python benchmarks/readme.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from emorl import DataConfig, load, open_dataset
from emorl.plots.pictures import save_picture, scenes_apart
from emorl.plots.style import learning_curves

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "efficient-morl--tetrominoes-fast.json"
EXPLORATION = ROOT / "benchmarks" / "results" / "exploration.json"
LEVERS = ROOT / "benchmarks" / "results" / "levers.json"
DATASETS = ROOT / "benchmarks" / "results" / "datasets.json"
PAPER = {
    "ari": 0.982,
    "mse": 7.0e-4,
    "kl_refined": 98.5,
}  # Table 1 and the ablation table, after 200,000 steps


COLUMNS = {  # heading -> score, factor, decimals
    "ARI": ("ari", 1, 3),
    "ARI at I = 0": ("ari_without_refinement", 1, 3),
    "MSE (1e-4)": ("mse", 1e4, 1),
    "KL refined": ("kl_refined", 1, 0),
    "ARI, best of 4 tries": ("ari_of_four_tries", 1, 3),
    "MSE, best of 4 tries": ("mse_of_four_tries", 1e4, 1),
}


def table(results: dict[str, Any]) -> str:
    """The seeds as Markdown."""
    lines = [
        f"| seed | {' | '.join(COLUMNS)} | CPU minutes | until ARI 0.90 |",
        f"|{'---|' * (len(COLUMNS) + 3)}",
    ]
    for seed in results["seeds"]:
        numbers = [f"{factor * seed[name]:.{digits}f}" for name, factor, digits in COLUMNS.values()]
        first = next((point["cpu_minutes"] for point in seed["curve"] if point["ari"] >= 0.9), None)
        cost = [f"{seed['cpu_minutes']:.0f}", "" if first is None else f"{first:.0f}"]
        lines.append(f"| {seed['seed']} | {' | '.join([*numbers, *cost])} |")
    summary = results["summary"]
    means = [
        f"{factor * summary[name]['mean']:.{digits}f} ± {factor * summary[name]['sd']:.{digits}f}"
        for name, factor, digits in COLUMNS.values()
    ]
    lines.append(f"| **mean ± sd** | {' | '.join(means)} | | |")
    lines.append("| paper, 5 seeds | 0.982 ± 0.018 | | 7.0 ± 6.0 | 99 ± 21 | | | two GPUs, 200 000 steps | |")
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


def levers_table(results: dict[str, Any]) -> str:
    """The levers with two seeds each as Markdown."""
    lines = ["| change | ARI | MSE (1e-4) | KL refined | CPU minutes |", "|---|---|---|---|---|"]
    for entry in results["summary"]:
        numbers = [
            f"{factor * entry[name]['mean']:.{digits}f} ± {factor * entry[name]['sd']:.{digits}f}"
            for name, factor, digits in (
                ("ari", 1, 3),
                ("mse", 1e4, 0),
                ("kl_refined", 1, 0),
                ("cpu_minutes", 1, 1),
            )
        ]
        lines.append(f"| {entry['label']} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def dataset_table(results: dict[str, Any]) -> str:
    """The statistics as Markdown."""
    lines = [
        "| data set | scenes | objects per scene: share | pixels per object (5 % have at most) "
        "| touch another | background RGB | known share |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for name, found in results.items():
        objects = ", ".join(f"{n}: {share:.2f}" for n, share in found["objects"].items())
        rgb = " ".join(f"{c:.0f}" for c in found["background_rgb"])
        known = found.get("known")
        text = (
            f"{known['what']}: {known['measured']:.3f}, published {known['published']:.3f}" if known else ""
        )
        pixels = f"{found['pixels_per_object']:.0f} ({found['pixels_of_the_least_visible']:.0f})"
        touch = f"{found['share_that_touches_another']:.2f}"
        lines.append(f"| {name} | {found['scenes']} | {objects} | {pixels} | {touch} | {rgb} | {text} |")
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
    rewrite(
        ROOT / "docs" / "learning.md", "levers", levers_table(json.loads(LEVERS.read_text(encoding="utf-8")))
    )
    datasets = json.loads(DATASETS.read_text(encoding="utf-8"))
    rewrite(ROOT / "docs" / "data.md", "statistics", dataset_table(datasets))
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        rewrite(ROOT / "README.md", "seeds", table(results))
        curves = {f"seed {seed['seed']}": seed["curve"] for seed in results["seeds"]}
        learning_curves(curves, ROOT / "docs" / "images" / "learning.png", goals=PAPER)
    scenes = open_dataset(DataConfig("tetrominoes"), "test")
    picture = scenes_apart(load("efficient-morl/tetrominoes"), scenes)
    save_picture(picture, ROOT / "docs" / "images" / "tetrominoes.png")


if __name__ == "__main__":
    main()
