"""emorl train"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, make_dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import tyro

from emorl.cli.options import Device
from emorl.data import FOLDER, DataConfig
from emorl.errors import UserError
from emorl.models import kind_of
from emorl.runs.config import RunConfig
from emorl.runs.presets import run_of
from emorl.runs.run import Run
from emorl.schedules import Schedule
from emorl.training.trainer import train


def train_command(name: str, arguments: Sequence[str]) -> None:
    """Trains with the named settings, each of which can be overridden: the options follow the model of the preset."""
    run = run_of(name)
    if (source := value_of("--from", arguments)) is not None:
        run = beginning_with(source, run)
    settings = make_dataclass(
        "Train",
        [
            (
                "out",
                Path,
                field(default=Path("runs") / Path(name).with_suffix("").as_posix().replace("/", "-")),
            ),
            ("resume", bool, field(default=False)),
            ("source", Annotated[str | None, tyro.conf.arg(name="from")], field(default=None)),
            ("device", Device, field(default=run.train.accelerator)),
            ("skip_damaged", bool, field(default=False)),
            ("model", type(run.model), field(default=run.model)),
            ("data", DataConfig, field(default=run.data)),
            ("train", type(run.train), field(default=run.train)),
        ],
    )
    settings.__doc__ = f"""Train {name}.

    Args:
        out: Run directory: configuration, metrics, checkpoints and weights go there.
        resume: Continue the run in that directory.
        source: Weights to begin with: a run directory, the name of released weights, or a .safetensors file. Settings
            of the model are then those of the weights, unless they are given here.
        device: The same as --train.accelerator.
        skip_damaged: Of "folder": leave images out that cannot be read. The same as --data.skip-damaged.
    """
    given: Any = tyro.cli(
        settings,
        args=arguments,
        prog=f"emorl train {name}",
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=with_schedules(),
    )
    data, how = given.data, given.train
    if value_of("--device", arguments) is not None:
        how = replace(how, accelerator=given.device)
    if given.skip_damaged:
        data = replace(data, skip_damaged=True)
    if data.name == FOLDER and value_of("--data.image-size", arguments) is None:
        data = replace(data, image_size=given.model.image_size)
    if given.source is not None:
        how = replace(how, start_from=given.source)
    train(RunConfig(given.model, data, how), given.out, resume=given.resume)


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Returns what follows an option, or None if it is not there."""
    for word, following in zip_longest(arguments, arguments[1:]):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def beginning_with(source: str, run: RunConfig) -> RunConfig:
    """Returns the run with the model of weights to begin with, where that is known: a file does not say it."""
    if Path(source).is_file():
        return run
    weights = Run.open(source)
    if weights.kind != kind_of(run.model):
        raise UserError(f"{source} is of {weights.kind}, so {kind_of(run.model)} cannot begin with it.")
    return replace(run, model=weights.config.model)


def with_schedules() -> tyro.constructors.ConstructorRegistry:
    """What teaches tyro to read a Schedule: its text is one argument, as in config.json."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def _(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        if info.type not in (Schedule, Schedule | None):
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="SCHEDULE",
            instance_from_str=lambda words: None if words == ["None"] else Schedule.parse(words[0]),
            is_instance=lambda value: value is None or isinstance(value, Schedule),
            str_from_instance=lambda schedule: [str(schedule)],
        )

    return registry


def train_help(
    preset: tyro.conf.Positional[str], out: Path = Path("runs/PRESET"), resume: bool = False
) -> None:
    """Learn to decompose images; `emorl train PRESET --help` lists every setting.

    Args:
        preset: A name from `emorl list`, or a config.json. It comes first.
        out: Run directory: configuration, metrics, checkpoints and weights go there.
        resume: Continue the run in that directory.
    """
    raise UserError(f"Name the preset first: emorl train {preset} --out {out}")
