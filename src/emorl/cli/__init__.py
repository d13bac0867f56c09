"""The command line: emorl train | evaluate | decompose | sweep | bench | reproduce | figure | report | data | list."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence

import tyro

from emorl.cli.bench import bench_command
from emorl.cli.figures import figure_command
from emorl.cli.inference import decompose_command, evaluate_command
from emorl.cli.reports import report_command
from emorl.cli.reproduce import reproduce_command
from emorl.cli.scenes import convert_command, data_command, list_command, preview_command, store_command
from emorl.cli.sweeps import sweep_command
from emorl.cli.train import train_command, train_help
from emorl.errors import UserError
from emorl.training.distributed import PeerLost
from emorl.training.signals import Interrupted

DESCRIPTION = """Discovers the objects in images without labels. Begin with `emorl list`, then
`emorl train efficient-morl/tetrominoes-fast --out runs/a` and `emorl evaluate runs/a`."""

Commands = Mapping[str, Callable[..., None]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. A user's mistake is one line on stderr and exit status 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = lambda message, *_, **__: print(f"emorl: {message}", file=sys.stderr)
    try:
        if arguments[:1] == ["train"] and arguments[1:] and not arguments[1].startswith("-"):
            return train_command(arguments[1], arguments[2:])
        if arguments[:1] == ["data"]:
            actions: Commands = {
                "preview": preview_command,
                "store": store_command,
                "convert": convert_command,
            }
            return dispatch(actions, arguments[1:], prog="emorl data", description=data_command.__doc__ or "")
        commands: Commands = {
            "train": train_help,
            "evaluate": evaluate_command,
            "decompose": decompose_command,
            "sweep": sweep_command,
            "bench": bench_command,
            "reproduce": reproduce_command,
            "figure": figure_command,
            "report": report_command,
            "data": data_command,
            "list": list_command,
        }
        dispatch(commands, arguments, prog="emorl", description=DESCRIPTION)
    except UserError as error:
        if is_first():
            print(f"emorl: {error}", file=sys.stderr)
        sys.exit(2)
    except PeerLost as lost:
        if str(lost):
            print(f"emorl: {lost}", file=sys.stderr)
        sys.exit(1)
    except Interrupted as stop:
        sys.exit(128 + stop.signum)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_first() -> bool:
    """Of several training processes, the first one speaks; torchrun, SLURM and fabric number them."""
    ranks = (os.environ[name] for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if name in os.environ)
    return next(ranks, "0") == "0"


def dispatch(commands: Commands, arguments: Sequence[str], *, prog: str, description: str) -> None:
    tyro.extras.subcommand_cli_from_dict(
        dict(commands),
        prog=prog,
        description=description,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
