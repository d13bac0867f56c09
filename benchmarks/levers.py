"""Measures levers of learning one at a time: each is one change to a short run of the fast preset, with two seeds.

    python benchmarks/levers.py --runs runs/levers --jobs 2
    python benchmarks/levers.py --runs runs/levers --levers adam

The baseline is the full model of `emorl reproduce --scale cpu`. Can be stopped and run again at any time: finished runs
are kept, interrupted ones go on, and what was measured stays in the results.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from emorl import RunConfig, evaluate
from emorl.config import read_json
from emorl.files import write_json
from emorl.reproduce.jobs import train_missing
from emorl.reproduce.trained import Row, Trained, summary
from emorl.reproduce.variants import variant

RESULTS = Path(__file__).parent / "results" / "levers.json"
SCORES = ("ari", "mse", "kl_refined", "cpu_minutes")
SEEDS = (0, 1)

LEVERS: dict[str, dict[str, dict[str, Any]]] = {
    "baseline": {},
    "Adam instead of Muon": {"train": {"optimizer": "adam"}},
    "I = 3 for 500 steps, then 1": {"train": {"curriculum": ((0, 3), (500, 1))}},
    "I = 3, fewer when late updates are small": {"train": {"curriculum": ((0, 3),), "drop_below": 0.8}},
    "learning rate 2e-3": {"train": {"learning_rate": 2e-3}},
    "learning rate 5e-4": {"train": {"learning_rate": 5e-4}},
    "positions as ramps only": {"model": {"position": "ramps"}},
    "4 frequencies instead of 8": {"model": {"frequencies": 4}},
    "KL weight stays at 0.007": {"model": {"kl_start": None, "kl_weight": 0.007}},
    "KL weight 1 from the start": {"model": {"kl_start": None}},
    "decoder of 48 channels": {"model": {"decoder_channels": 48}},
}


def configured(lever: str, seed: int) -> RunConfig:
    run, changes = variant("full", scale="cpu", dataset="tetrominoes", seed=seed), LEVERS[lever]
    return RunConfig(
        replace(run.model, **changes.get("model", {})),
        run.data,
        replace(run.train, **changes.get("train", {})),
    )


def measure(one: Trained) -> Row:
    scores = evaluate(one.model, one.scenes("validation"))
    last = one.metrics[-1]
    row = one.row(**{name: scores.mean(name) for name in ("ari", "mse", "kl_refined")})
    return row | {"cpu_minutes": last["cpu_seconds"] / 60, "final_I": last["num_steps"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levers", nargs="+", choices=LEVERS, default=list(LEVERS))
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    arguments = parser.parse_args()
    trained = [
        Trained(lever, configured(lever, seed), arguments.runs / lever.replace(" ", "-") / f"seed-{seed}")
        for lever in arguments.levers
        for seed in SEEDS
    ]
    train_missing({one.directory: one.run for one in trained}, jobs=arguments.jobs)
    earlier = read_json(arguments.results)["rows"] if arguments.results.exists() else []
    rows = [row for row in earlier if row["label"] not in arguments.levers]
    rows = sorted([*rows, *map(measure, trained)], key=lambda row: list(LEVERS).index(row["label"]))
    command = "python benchmarks/levers.py --runs RUNS"
    write_json(arguments.results, {"command": command, "summary": summary(rows, SCORES), "rows": rows})


if __name__ == "__main__":
    main()
