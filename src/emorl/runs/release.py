"""Releasing weights: those of a run are copied into the package, beside a card with scores measured here and now."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.files import check_output, is_same_file, make_directory, read_json, write_bytes, write_json
from emorl.models import build
from emorl.runs.card import data_of
from emorl.runs.presets import preset
from emorl.runs.run import FOLDER, Run, checksum

CURVE = ("ari", "ari_with_background", "miou", "mse", "slots_used", "kl")  # validation scores kept in a card


def release(run: Run, name: str, trained_by: str | None = None, *, folder: Path = FOLDER) -> dict[str, Any]:
    """Copies the weights of `run` to `folder`/`name`. Returns the card.

    Weights bear the name of the preset that trained them, or else `trained_by` says which did.
    """
    trained_by = trained_by or name
    usual_steps = preset(trained_by).train.steps
    if run.directory is None or not run.is_finished:
        raise UserError(f"{run.name} is not a run directory that is trained to the end.")
    weights = folder / f"{name}.safetensors"
    check_place(weights, name, run)
    scenes, config = run.scenes("test"), run.config
    longer = "" if config.train.steps == usual_steps else f" --train.steps {config.train.steps}"
    card = {
        "name": name,
        "preset": trained_by,
        "command": f"emorl train {trained_by} --out RUN --train.seed {run.seed}{longer}",
        "data": data_of(config.data),
        "seed": run.seed,
        "steps": config.train.steps,
        "cpu_minutes": round(run.cpu_minutes or 0.0, 1),
        "wall_clock_minutes": round((run.metrics[-1].get("seconds") or 0.0) / 60, 1),
        "environment": run.environment,
        "scores": evaluate(run.model, scenes).summary(),
        **without_refinement(run, scenes),
        **other_starts(run, scenes),
        "curve": run.curve(*CURVE),
        "sha256": checksum(run.weights),
        # Stored scenes are where they are on one machine; without a path the same scenes are made when asked for.
        "config": config.without_path().to_dict(),
    }
    make_directory(weights.parent)
    write_bytes(weights, run.weights.read_bytes())
    write_json(card_beside(weights), card)
    return card


def without_refinement(run: Run, scenes: SceneDataset) -> dict[str, Any]:
    """Scores of the answer before any refinement, of a model that has one."""
    if run.model.least_steps != 0:
        return {}
    return {"scores_without_refinement": evaluate(run.model, scenes, num_steps=0).summary()}


def other_starts(run: Run, scenes: SceneDataset) -> dict[str, Any]:
    """Scores of stage 1 done once, as in the paper, of a model that does it several times; of four tries otherwise."""
    inference = getattr(run.model.config, "inference", None)
    if inference is None or inference.starts == 1:
        return {"scores_of_four_tries": evaluate(run.model, scenes, tries=4).summary()}
    once = build(replace(run.model.config, inference=replace(inference, starts=1)))
    once.load_state_dict(run.model.state_dict())
    return {"scores_of_one_start": evaluate(once.to(run.model.device).eval(), scenes).summary()}


def card_beside(weights: Path) -> Path:
    """Returns where the card of released weights stands."""
    return weights.with_name(weights.name.removesuffix(".safetensors") + ".json")


def check_place(weights: Path, name: str, run: Run) -> None:
    """Raises UserError for a `name` outside the folder, and for one whose files are not an earlier release."""
    parts = name.split("/")
    if not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", part) for part in parts):
        raise UserError(
            f"Weights are named model/data set, in letters, digits, '.', '_' and '-', not {name!r}."
        )
    card = card_beside(weights)
    if card.exists() and {"sha256", "config"} <= read_json(card).keys():
        if is_same_file(weights, run.weights):
            raise UserError(
                f"{weights} is one of the inputs, which are never overwritten: choose another name."
            )
        return
    for path in (weights, card):
        check_output(path, inputs=[run.weights])
