"""The trainings behind the paper's tables and figures: variants of a preset, at two scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from emorl.geco import GecoConfig
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS

ScaleName = Literal["cpu", "paper"]


@dataclass(frozen=True)
class Scale:
    """How large a reproduction is."""

    description: str
    presets: Mapping[
        str, str
    ]  # data set of the paper -> the preset that stands for it, of which there are variants
    seeds: tuple[int, ...]
    suffix: str = ""  # of the presets in full, where it is about well-trained models
    seeds_in_full: tuple[int, ...] = (0, 1, 2, 3, 4)  # of those
    model: Mapping[str, Any] = field(default_factory=dict)  # settings that differ from the preset
    train: Mapping[str, Any] = field(default_factory=dict)


SCALES: dict[ScaleName, Scale] = {
    "cpu": Scale(
        "Tetrominoes whatever the paper used, 2000 steps of the fast preset on one core, two seeds",
        # The whole course of a run in small: objects first, then the KL, then a decaying rate.
        presets=dict.fromkeys(("tetrominoes", "multi-dsprites", "clevr6"), "efficient-morl/tetrominoes-fast"),
        seeds=(0, 1),
        suffix="-fast",
        seeds_in_full=(0,),
        model={"kl_ramp": (500, 1500)},
        train={"steps": 2000, "evaluate_every": 250, "checkpoint_every": 250},
    ),
    "paper": Scale(
        "the paper's data, settings and number of steps, five seeds; for owners of GPUs",
        presets={
            name: f"efficient-morl/{name}"
            for name in ("tetrominoes", "multi-dsprites", "multi-dsprites-textured", "clevr6")
        },
        seeds=(0, 1, 2, 3, 4),
    ),
}

# Name -> what differs from the full model.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "full": {},
    **{f"I={I}": {"model": {"num_steps": I}, "train": {"curriculum": ((0, I),)}} for I in (0, 1, 3)},
    **{f"L={L}": {"model": {"num_layers": L}} for L in (1, 2, 3, 4)},
    # Nothing but refinement, so it needs all three steps.
    "L=0": {"model": {"num_layers": 0, "num_steps": 3}, "train": {"curriculum": ((0, 3),)}},
    "bottom-up prior": {"model": {"prior": "bottom-up"}},
    "reversed prior": {"model": {"prior": "reversed"}},
    "without DualGRU": {"model": {"gru": "single"}},
    # NLL and KL weighted alike, as in the ELBO, from the first step to the last.
    "without GECO": {"model": {"nll_weight": 1.0, "kl_start": None, "geco": GecoConfig()}},
    "automatic GECO": {
        "model": {
            "nll_weight": 1.0,
            "kl_start": 0.002,
            "geco": GecoConfig(target="auto", warm_up=1500, rate=0.001),
        }
    },
    "increasing loss weights": {"model": {"loss_weights": "increasing"}},
}


def variant(name: str, *, scale: ScaleName, dataset: str, seed: int) -> RunConfig:
    """The run of one variant and seed."""
    size, changes = SCALES[scale], VARIANTS[name]
    run = PRESETS[size.presets[dataset]]
    return RunConfig(
        replace(run.model, **{**size.model, **changes.get("model", {})}),
        run.data,
        replace(run.train, **{**size.train, **changes.get("train", {}), "seed": seed}),
    )


def canonical(name: str, *, scale: ScaleName, dataset: str) -> str:
    """The first variant that is the same run at this scale: what several figures need is trained once."""
    run = variant(name, scale=scale, dataset=dataset, seed=0)
    return next(other for other in VARIANTS if variant(other, scale=scale, dataset=dataset, seed=0) == run)
