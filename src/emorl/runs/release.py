"""Releases the weights of a run: copies them into the package, beside a card with scores measured here and now.

python benchmarks/release.py runs/tetrominoes-fast/seed-0 efficient-morl/tetrominoes --preset ...-fast
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from emorl.config import read_json
from emorl.data import open_dataset
from emorl.evaluation.evaluate import evaluate
from emorl.files import write_bytes, write_json
from emorl.runs.checkpoint import load_run
from emorl.runs.directory import WEIGHTS, read_metrics
from emorl.runs.run import FOLDER, checksum


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="model/data set")
    parser.add_argument("--preset", required=True, help="the preset that trained it")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where released weights live")
    arguments = parser.parse_args()

    model, run = load_run(arguments.run)
    scenes = open_dataset(run.data, "test")
    last = read_metrics(arguments.run)[-1]
    weights = arguments.folder / f"{arguments.name}.safetensors"
    weights.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(weights, (arguments.run / WEIGHTS).read_bytes())
    card = {
        "name": arguments.name,
        "preset": arguments.preset,
        "command": f"emorl train {arguments.preset} --out RUN --train.seed {run.train.seed}",
        "data": f"{run.data.name}, scenes 0 to {run.data.train_size - 1} of seed {run.data.seed}",
        "seed": run.train.seed,
        "steps": run.train.steps,
        "cpu_minutes": round(last["cpu_seconds"] / 60, 1),
        "wall_clock_minutes": round(last["seconds"] / 60, 1),
        "environment": read_json(arguments.run / "environment.json"),
        "scores": evaluate(model, scenes).summary(),
        "scores_without_refinement": evaluate(model, scenes, num_steps=0).summary(),
        "scores_of_four_tries": evaluate(model, scenes, tries=4).summary(),
        "sha256": checksum(weights),
        "config": run.to_dict(),
    }
    write_json(weights.with_suffix(".json"), card)
    print(json.dumps({key: card[key] for key in ("name", "scores", "scores_without_refinement")}, indent=2))


if __name__ == "__main__":
    main()
