"""emorl train"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import tyro

from emorl.data import DataConfig
from emorl.errors import UserError, nearest
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from emorl.training.trainer import train


def resolve(name: str) -> RunConfig:
    """Returns the preset of that name, or the configuration in that file."""
    if name in PRESETS:
        return PRESETS[name]
    if name.endswith(".json") or Path(name).exists():
        return RunConfig.read(Path(name))
    raise UserError(f"There is no preset {name!r}{nearest(name, PRESETS)}")


def train_command(name: str, arguments: Sequence[str]) -> None:
    """Trains with the named settings, each of which can be overridden: the options follow the model of the preset."""
    run = resolve(name)
    settings = make_dataclass(
        "Train",
        [
            (
                "out",
                Path,
                field(default=Path("runs") / Path(name).with_suffix("").as_posix().replace("/", "-")),
            ),
            ("resume", bool, field(default=False)),
            ("model", type(run.model), field(default=run.model)),
            ("data", DataConfig, field(default=run.data)),
            ("train", type(run.train), field(default=run.train)),
        ],
    )
    settings.__doc__ = f"""Train {name}.

    Args:
        out: Run directory: configuration, metrics, checkpoints and weights go there.
        resume: Continue the run in that directory.
    """
    given: Any = tyro.cli(
        settings,
        args=arguments,
        prog=f"emorl train {name}",
        config=(tyro.conf.FlagCreatePairsOff,),
        registry=with_schedules(),
    )
    train(RunConfig(given.model, given.data, given.train), given.out, resume=given.resume)


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
