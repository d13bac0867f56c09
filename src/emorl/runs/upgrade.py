"""Runs of earlier versions: the one place where old settings and names of weights become today's.

Every difference is one entry below, so that run directories and released weights made at any time can be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Values = dict[str, Any]

# 0.1: settings of a model stood side by side. Name then -> group and name now.
GROUPED = {
    "encoder_channels": "encoder.channels",
    "encoder_stride": "encoder.stride",
    "decoder": "decoder.layout",
    "decoder_channels": "decoder.channels",
}
GROUPED_EFFICIENT_MORL = GROUPED | {
    "likelihood": "objective.likelihood",
    "likelihood_sigma": "objective.sigma",
    "prior": "objective.prior",
    "prior_draw": "objective.prior_draw",
    "loss_weights": "objective.loss_weights",
    "kl_weight": "objective.kl_weight",
    "nll_weight": "objective.nll_weight",
    "geco": "objective.geco",
    "num_layers": "inference.num_layers",
    "gru": "inference.gru",
    "attention_norm": "inference.attention_norm",
    "initialisation": "inference.initialisation",
    "scale_bias": "inference.scale_bias",
}


def group_model_settings(run: Values) -> None:
    """0.1 had encoder, decoder and objective of a model in one list, and ramps of the KL weight in three settings."""
    model = run.get("model", {})
    kind = model.get("kind")
    if kind == "genesis" or any(isinstance(value, dict) for name, value in model.items() if name != "geco"):
        return
    schedule_kl(model)
    names = GROUPED_EFFICIENT_MORL if kind == "efficient-morl" else GROUPED
    if "frequencies" in model or "position" in model:
        is_fourier = model.pop("position", "fourier") == "fourier"
        frequencies = (
            model["frequencies"] if kind == "genesis-v2" else model.pop("frequencies", 8)
        ) * is_fourier
        for part in (
            ("encoder", "decoder") if "encoder_channels" in model and kind != "monet" else ("decoder",)
        ):
            model[f"{part}.frequencies"] = frequencies
    for name, value in list(model.items()):
        group, _, field = names.get(name, name).partition(".")
        # MONet's encoder is another, whose settings are not in a group.
        if not field or (kind == "monet" and group == "encoder"):
            continue
        del model[name]
        if not isinstance(model.get(group), dict):
            model[group] = {"layout": model.pop(group)} if group in model else {}
        model[group][field] = value


def schedule_kl(model: Values) -> None:
    """0.1: kl_start, kl_ramp and kl_weight instead of a schedule."""
    start, ramp = model.pop("kl_start", None), model.pop("kl_ramp", None)
    if start is not None:
        first, last = ramp or (0, 1000)
        model["kl_weight"] = f"{start} {first}:{start} geometric {last}:{model.get('kl_weight', 1.0)}"
        model["kl_weight"] = model["kl_weight"].replace(f" 0:{start}", "")


def schedule_training(run: Values) -> None:
    """0.1: a rate, a warm-up and a kind of decay instead of a schedule, and pairs (step, I) for refinements."""
    train = run.get("train", {})
    if any(name in train for name in ("warm_up", "decay", "half_life")):
        rate, warm_up = train.get("learning_rate", 4e-4), train.pop("warm_up", 10_000)
        decay, half_life = train.pop("decay", "exponential"), train.pop("half_life", 100_000)
        text = f"0 linear {warm_up}:{rate}" if warm_up else f"{rate}"
        ways = {
            "exponential": f" geometric {warm_up + 10 * half_life}:{rate / 1024}",
            "cosine": " cosine 100%:0",
            "none": "",
        }
        train["learning_rate"] = text + ways.get(decay, "")
    if "curriculum" in train:
        pairs = train.pop("curriculum")
        words = [f"{I}" if step == 0 else f"{step}:{I}" for step, I in pairs]
        train["num_steps"] = " ".join(words) if words else None


# Each takes a run's settings {"model", "data", "train"} as they stand in config.json, changes them in place where they
# are of an earlier version, and leaves today's alone. They are applied in this order.
CONFIG_CHANGES: list[Callable[[Values], None]] = [group_model_settings, schedule_training]

# Earlier beginning of the name of a parameter or buffer -> today's, or None for what is no longer kept.
WEIGHT_NAMES: dict[str, str | None] = {"kl_ramp.": None}


def upgrade(config: Mapping[str, Any]) -> Values:
    """Returns the settings of a run of any version as today's. Nothing is checked: RunConfig.from_dict does that.

    Settings that make no sense in any version stay as they are.
    """
    values = {name: dict(group) if isinstance(group, Mapping) else group for name, group in config.items()}
    if not all(isinstance(group, dict) for group in values.values()):
        return values
    try:
        for change in CONFIG_CHANGES:
            change(values)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        return dict(config)
    return values


def upgrade_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns parameters and buffers under today's names, without those that are no longer kept."""
    named = ((upgrade_name(name), tensor) for name, tensor in weights.items())
    return {name: tensor for name, tensor in named if name is not None}


def upgrade_name(name: str) -> str | None:
    """Returns today's name of a parameter or buffer, None if it is no longer kept."""
    for old, new in WEIGHT_NAMES.items():
        if name.startswith(old):
            return None if new is None else new + name.removeprefix(old)
    return name
