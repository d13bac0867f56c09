"""Trains a preset with several seeds, scores each on the held-out scenes, and writes one JSON of results.

    python benchmarks/seeds.py efficient-morl/tetrominoes-fast --seeds 0 1 2 3 4 --runs runs/tetrominoes-fast

Can be stopped and run again at any time: finished seeds are kept, an interrupted one goes on. Seeds that an earlier
call measured with the same settings stay in the results.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from emorl import PRESETS, evaluate, load, open_dataset, train
from emorl.config import read_json
from emorl.files import make_directory, write_json
from emorl.runs.directory import read_metrics

RESULTS = Path(__file__).parent / "results"
CURVE = ("ari", "mse", "kl_hierarchical", "kl_refined", "slots_used")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON to write")
    parser.add_argument("--images", type=int, help="test scenes to score; all if left out")
    arguments = parser.parse_args()

    make_directory(arguments.results)
    path = arguments.results / f"{arguments.preset.replace('/', '--')}.json"
    config = PRESETS[arguments.preset].to_dict()
    results = {seed["seed"]: seed for seed in earlier(path, config)}
    for seed in arguments.seeds:
        directory = arguments.runs / f"seed-{seed}"
        results[seed] = measure(arguments.preset, seed, directory, images=arguments.images)
    names = ("ari", "mse", "kl_refined", "kl_hierarchical", "ari_without_refinement",
             "ari_of_four_tries", "mse_of_four_tries", "ari_at_means", "mse_at_means")  # fmt: skip
    summary = {name: mean_and_sd([result[name] for result in results.values()]) for name in names}
    command = f"python benchmarks/seeds.py {arguments.preset} --seeds {' '.join(map(str, sorted(results)))} --runs RUNS"
    seeds = [results[seed] for seed in sorted(results)]
    everything = {
        "preset": arguments.preset,
        "command": command,
        "summary": summary,
        "seeds": seeds,
        "config": config,
    }
    write_json(path, everything)
    print(json.dumps(summary, indent=2))


def earlier(path: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Seeds measured before with the same settings."""
    if not path.exists():
        return []
    found = read_json(path)
    seeds: list[dict[str, Any]] = found["seeds"] if found["config"] == config else []
    return seeds


def measure(preset: str, seed: int, directory: Path, *, images: int | None) -> dict[str, Any]:
    """Trains what is missing of one seed and returns its scores and curve."""
    run = PRESETS[preset]
    run = replace(run, train=replace(run.train, seed=seed))
    train(run, directory, resume=True)
    model, scenes = load(directory), open_dataset(run.data, "test")
    score = partial(evaluate, model, scenes, images=images)
    refined, stage1, best, means = score(), score(num_steps=0), score(tries=4), score(means=True)
    metrics = read_metrics(directory)
    evaluated = [record for record in metrics if "validation_ari" in record]
    curve = [
        {"step": record["step"] + 1, "cpu_minutes": round(record["cpu_seconds"] / 60, 2)}
        | {name: round(record[f"validation_{name}"], 5) for name in CURVE}
        for record in evaluated
    ]
    return {
        "seed": seed,
        **{
            name: refined.mean(name) for name in ("ari", "mse", "kl_refined", "kl_hierarchical", "slots_used")
        },
        "ari_without_refinement": stage1.mean("ari"),
        "ari_of_four_tries": best.mean("ari"),
        "mse_of_four_tries": best.mean("mse"),
        "ari_at_means": means.mean("ari"),
        "mse_at_means": means.mean("mse"),
        "images": refined.settings["images"],
        "steps": run.train.steps,
        "skipped": metrics[-1]["skipped"],
        "cpu_minutes": round(metrics[-1]["cpu_seconds"] / 60, 1),
        "wall_clock_minutes": round(metrics[-1]["seconds"] / 60, 1),
        "environment": read_json(directory / "environment.json"),
        "curve": curve,
    }


def mean_and_sd(values: list[float]) -> dict[str, float]:
    return {"mean": statistics.mean(values), "sd": statistics.stdev(values) if len(values) > 1 else 0.0}


if __name__ == "__main__":
    main()
