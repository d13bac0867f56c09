"""Releasing weights: those of a run are copied into the package, beside a card with scores measured here and now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.files import make_directory, write_bytes, write_json
from emorl.runs.run import FOLDER, Run, checksum


def release(run: Run, name: str, preset: str, *, folder: Path = FOLDER) -> dict[str, Any]:
    """Copies the weights of `run`, which `preset` has trained, to `folder`/`name`. Returns the card."""
    if not run.is_finished:
        raise UserError(f"{run.name} is not trained to the end.")
    scenes, config = run.scenes("test"), run.config
    weights = folder / f"{name}.safetensors"
    make_directory(weights.parent)
    write_bytes(weights, run.weights.read_bytes())
    card = {
        "name": name,
        "preset": preset,
        "command": f"emorl train {preset} --out RUN --train.seed {run.seed}",
        "data": f"{config.data.name}, scenes 0 to {(config.data.train_size or 0) - 1} of seed {config.data.seed}",
        "seed": run.seed,
        "steps": config.train.steps,
        "cpu_minutes": round(run.cpu_minutes or 0.0, 1),
        "wall_clock_minutes": round(run.metrics[-1]["seconds"] / 60, 1),
        "environment": run.environment,
        "scores": evaluate(run.model, scenes).summary(),
        "scores_without_refinement": evaluate(run.model, scenes, num_steps=0).summary(),
        "scores_of_four_tries": evaluate(run.model, scenes, tries=4).summary(),
        "sha256": checksum(weights),
        "config": config.to_dict(),
    }
    write_json(weights.with_suffix(".json"), card)
    return card
