"""The command line: one module for each command of COMMANDS."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import torch
import tyro

from emorl.errors import UserError, one_line
from emorl.files import cause
from emorl.training.distributed import PeerLost
from emorl.training.signals import Interrupted
from emorl.version import __version__

DESCRIPTION = """Discovers the objects in images without labels. Begin with `emorl list`, then
`emorl train efficient-morl/tetrominoes --out runs/a` and `emorl evaluate runs/a`."""

# Command -> module of emorl.cli and function in it. A module is imported when its command is asked for.
COMMANDS = {
    "train": ("train", "train_help"),
    "evaluate": ("evaluate", "evaluate_command"),
    "decompose": ("decompose", "decompose_command"),
    "sweep": ("sweep", "sweep_command"),
    "bench": ("bench", "bench_command"),
    "reproduce": ("reproduce", "reproduce_command"),
    "figure": ("figure", "figure_command"),
    "report": ("report", "report_command"),
    "explore": ("explore", "explore_command"),
    "export": ("export", "export_command"),
    "release": ("release", "release_command"),
    "data": ("data", "data_command"),
    "list": ("listing", "list_command"),  # a module named list would take the place of list() here
}
DATA_COMMANDS = {
    "preview": ("data", "preview_command"),
    "store": ("data", "store_command"),
    "convert": ("data", "convert_command"),
}

Places = Mapping[str, tuple[str, str]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. A user's mistake is one line on stderr and exit status 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = lambda message, *_, **__: print(
        f"emorl: {one_line(str(message))}", file=sys.stderr
    )
    try:
        if arguments == ["--version"]:
            print(f"emorl {__version__}")
        elif arguments[:1] == ["train"] and arguments[1:] and not arguments[1].startswith("-"):
            function("train", "train_command")(arguments[1], arguments[2:])
        elif arguments[:1] == ["data"]:
            description = function(*COMMANDS["data"]).__doc__ or ""
            dispatch(DATA_COMMANDS, arguments[1:], prog="emorl data", description=description)
        else:
            dispatch(COMMANDS, arguments, prog="emorl", description=DESCRIPTION)
        if sys.stdout is not None:
            sys.stdout.flush()  # so that a full disk is found here
    except UserError as error:
        if is_first():
            print(f"emorl: {error}", file=sys.stderr)
        leave(2)
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        print(
            "emorl: There is not enough memory for this; make it smaller (slots, images, batches).",
            file=sys.stderr,
        )
        sys.exit(2)
    except PeerLost as lost:
        if str(lost):
            print(f"emorl: {lost}", file=sys.stderr)
        leave(1)
    except Interrupted as stop:
        leave(128 + stop.signum)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        discard_output()
    except OSError as error:  # whatever the machine refuses: a name that is too long, a folder that is gone
        about = f"{error.filename}: " if error.filename else ""
        print(f"emorl: {one_line(f'{about}{cause(error)}')}.", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # it was the output itself
            discard_output()
        leave(2)


def discard_output() -> None:
    """Sends what was not printed yet nowhere, or else Python complains of it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave(status: int) -> None:
    """Ends the process. One of several that train together ends at once: threads of theirs may abort a slower end."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def is_about_memory(error: Exception) -> bool:
    """Whether an exception says that memory could not be had; PyTorch has no type of its own for that on a CPU."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)


def is_first() -> bool:
    """Of several training processes, the first one speaks; torchrun, SLURM and fabric number them."""
    ranks = (os.environ[name] for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if name in os.environ)
    return next(ranks, "0") == "0"


def dispatch(commands: Places, arguments: Sequence[str], *, prog: str, description: str) -> None:
    """Calls the command that `arguments` begin with; if there is none, tyro says which there are."""
    wanted = commands if arguments[:1] == [] or arguments[0] not in commands else [arguments[0]]
    tyro.extras.subcommand_cli_from_dict(
        {name: function(*commands[name]) for name in wanted},
        prog=prog,
        description=description,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def function(module: str, name: str) -> Callable[..., None]:
    """Returns a function of a module of this package, which is imported for it."""
    found: Callable[..., None] = getattr(import_module(f"emorl.cli.{module}"), name)
    return found
