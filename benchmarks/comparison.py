"""Trains every system's fast preset on the same data and machine, and writes scores, curves and pictures.

    python benchmarks/comparison.py --runs runs/comparison --jobs 2
    python benchmarks/comparison.py --runs runs/comparison --presets iodine/tetrominoes-fast
    python benchmarks/comparison.py

Can be stopped and run again at any time: finished runs are kept, interrupted ones go on, and what was measured stays in
the results. Runs of `emorl reproduce table-1` are found in its folder cpu/presets. Without runs: only
docs/comparison.md, from the committed results.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from emorl import PRESETS, evaluate
from emorl.config import read_json
from emorl.evaluation.efficiency import Pass
from emorl.evaluation.leakage import leakage
from emorl.evaluation.memory import peak_memory
from emorl.files import write_json
from emorl.models import build
from emorl.plots.panels import Panels
from emorl.plots.pictures import decomposition_row, save_picture
from emorl.plots.style import blank, log_scale, save_chart, styled
from emorl.probability import noise_from, noise_per_image
from emorl.report.published import PUBLISHED_ARI, SYSTEMS
from emorl.reproduce.jobs import train_missing
from emorl.reproduce.trained import Trained
from readme import ROOT, rewrite

RESULTS = ROOT / "benchmarks" / "results" / "comparison.json"
DOCUMENT = ROOT / "docs" / "comparison.md"
PICTURES = ROOT / "docs" / "images"
DATASETS = ("tetrominoes", "multi-dsprites")
FAST = [
    f"{system}/{dataset}-fast" for dataset in DATASETS for system in SYSTEMS if f"{system}/{dataset}-fast" in PRESETS
]  # fmt: skip
SCORES = ("ari", "ari_with_background", "miou", "mse", "slots_used")
SCENES = (0, 1)  # of the test scenes, in the pictures


def measure(one: Trained) -> dict[str, Any]:
    """What a finished run reached on the held-out scenes, and what that cost."""
    scores = evaluate(one.model, one.scenes("test"))
    last = one.metrics[-1]
    (memory,) = peak_memory([Pass(partial(build, one.run.model), one.run.train.batch_size, training=True)])
    curve = [
        {"step": record["step"] + 1, "cpu_minutes": round(record["cpu_seconds"] / 60, 2)}
        | {name: round(record[f"validation_{name}"], 5) for name in ("ari", "mse", "slots_used")}
        for record in one.metrics
        if "validation_ari" in record
    ]
    return {
        "preset": one.label,
        "seed": one.seed,
        **{name: scores.mean(name) for name in SCORES},
        "standard_error": scores.standard_error("ari"),
        "images": scores.settings["images"],
        "leakage": leakage(one.model, one.scenes("test")).image,
        "parameters": sum(p.numel() for p in one.model.parameters()),
        "steps": one.run.train.steps,
        "batch_size": one.run.train.batch_size,
        "cpu_minutes": round(last["cpu_seconds"] / 60, 1),
        "wall_clock_minutes": round(last["seconds"] / 60, 1),
        "training_pass_mib": round(memory / 2**20),
        "curve": curve,
        "config": one.run.to_dict(),
    }


@styled
def curves(rows: Sequence[dict[str, Any]]) -> Any:
    """ARI and MSE on validation scenes against the CPU minutes of training, a line for each system."""
    figure = blank(9, 3.2)
    panels: Any = figure.subplots(1, 2)
    for axes, (name, title) in zip(panels, {"ari": "ARI (foreground)", "mse": "MSE"}.items(), strict=True):
        for row in rows:
            minutes = [point["cpu_minutes"] for point in row["curve"]]
            axes.plot(minutes, [point[name] for point in row["curve"]], label=system(row["preset"]))
        axes.set_title(title)
        axes.set_xlabel("CPU minutes")
    panels[0].set_ylim(-0.02, 1.02)
    log_scale(panels[1])
    panels[1].legend(bbox_to_anchor=(1.02, 1), loc="upper left")
    return figure


def pictures(trained: Sequence[Trained]) -> Panels:
    """The same scenes taken apart by each system."""
    rows, labels = [], []
    for one in trained:
        scenes = one.scenes("test")
        for index in SCENES:
            x = scenes[index].image
            with noise_from(noise_per_image([index])):
                rows.append(decomposition_row(x, one.model.decompose(x[None])))
            labels.append(system(one.label))
    titles = ["image", "rebuilt", "masks", *(f"slot {k}" for k in range(len(rows[0]) - 3))]
    return Panels(rows, labels, titles, slots_from=3)


def system(preset: str) -> str:
    return SYSTEMS[preset.split("/")[0]]


def on(dataset: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["preset"].endswith(f"/{dataset}-fast")]


def table(dataset: str, rows: Sequence[dict[str, Any]]) -> str:
    """The systems as Markdown."""
    lines = [
        "| system | ARI | mean IoU | MSE (1e-4) | slots used | leakage | steps | CPU minutes (wall clock) "
        "| peak memory of a pass, MiB | parameters | ARI in the paper |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        paper = PUBLISHED_ARI.get((row["preset"].split("/")[0], dataset))
        cells = [
            system(row["preset"]), f"{row['ari']:.3f} ± {row['standard_error']:.3f}", f"{row['miou']:.2f}",
            f"{1e4 * row['mse']:.0f}", f"{row['slots_used']:.1f}", f"{row['leakage']:.0%}",
            f"{row['steps']:,}".replace(",", " "),
            f"{row['cpu_minutes']:.0f} ({row['wall_clock_minutes']:.0f})",
            f"{row['training_pass_mib']}", f"{row['parameters'] / 1000:.0f} K",
            f"{paper.mean:.3f} ± {paper.sd:.3f}" if paper else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_document(rows: Sequence[dict[str, Any]]) -> None:
    for dataset in DATASETS:
        mine = on(dataset, rows)
        if mine:
            save_chart(curves(mine), PICTURES / f"comparison-{dataset}-curves.png")
            rewrite(DOCUMENT, dataset, table(dataset, mine))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, help="folder of the runs")
    parser.add_argument(
        "--presets", nargs="+", default=FAST, choices=FAST, metavar="PRESET", help=", ".join(FAST)
    )
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    arguments = parser.parse_args()
    rows = {row["preset"]: row for row in read_json(RESULTS)["rows"]} if RESULTS.exists() else {}
    if arguments.runs:
        trained = [
            Trained(preset, PRESETS[preset], arguments.runs / preset.replace("/", "--") / "seed-0")
            for preset in arguments.presets
        ]
        train_missing({one.directory: one.run for one in trained}, jobs=arguments.jobs)
        for one in trained:
            rows[one.label] = measure(one)
            command = "python benchmarks/comparison.py --runs RUNS --jobs 2"
            write_json(RESULTS, {"command": command, "rows": [rows[name] for name in FAST if name in rows]})
            print(f"{one.label}: ARI {rows[one.label]['ari']:.3f}")
        for dataset in DATASETS:
            mine = [one for one in trained if one.label.endswith(f"/{dataset}-fast")]
            if mine:
                save_picture(pictures(mine).drawn(), PICTURES / f"comparison-{dataset}.png")
    write_document([rows[name] for name in FAST if name in rows])


if __name__ == "__main__":
    main()
