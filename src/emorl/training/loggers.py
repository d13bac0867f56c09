"""train.logger: metrics also go where people watch many runs, through loggers of lightning-fabric's kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emorl.errors import UserError, first_line, missing
from emorl.runs.config import RunConfig

PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",)}  # one of them is needed


def check_logger(name: str) -> None:
    """Raises UserError if the package that a logger needs is not installed, or wandb has nowhere to write to."""
    packages = PACKAGES.get(name, ())
    if packages and not any(find_spec(package) for package in packages):
        raise missing(packages[0], name, f"train.logger {name}")
    if name == "wandb" and os.environ.get("WANDB_MODE", "online") == "online":
        import wandb

        with wandb_errors():
            wandb.login()


def open_loggers(run: RunConfig, directory: Path) -> list[Any]:
    """Returns the loggers that a run asks for, which have taken note of its settings; none by default."""
    if run.train.logger == "none":
        return []
    logger = tensorboard(directory) if run.train.logger == "tensorboard" else wandb(directory)
    logger.log_hyperparams(run.flat())
    return [logger]


def tensorboard(directory: Path) -> Any:
    """Writes DIRECTORY/tensorboard; look at it with `tensorboard --logdir DIRECTORY`."""
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(directory, name="tensorboard", version="")


def wandb(directory: Path) -> Any:
    """Writes DIRECTORY/wandb, and to the project emorl of the account that wandb knows, if it is not offline."""
    import wandb
    from lightning_fabric.loggers.logger import Logger

    class WandbLogger(Logger):  # wandb's own needs all of Lightning
        name, version = "wandb", ""

        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            run.log(metrics, step=step)

        def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
            run.config.update(params)

        def finalize(self, status: str) -> None:
            run.finish(0 if status == "success" else 1)

    with wandb_errors():
        run = wandb.init(project="emorl", name=directory.name, dir=str(directory))
    return WandbLogger()


@contextmanager
def wandb_errors() -> Iterator[None]:
    """Raises UserError for what wandb cannot do: no account, no network."""
    import wandb

    try:
        yield
    except wandb.Error as error:
        raise UserError(
            f"wandb: {first_line(error)} Log in with `wandb login`, or set WANDB_MODE=offline and upload later with "
            "`wandb sync`."
        ) from None
