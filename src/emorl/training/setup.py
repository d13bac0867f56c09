"""Before the first step: settings are checked, the directory is opened, a checkpoint is restored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from emorl.config import from_dict
from emorl.data import Split, open_dataset
from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.files import make_directory
from emorl.models import kind_of
from emorl.models.base import Model
from emorl.runs.checkpoint import check_weights, load_checkpoint, load_weights, read_weights, shape_of_model
from emorl.runs.config import RunConfig
from emorl.runs.directory import CHECKPOINT, NotResumable
from emorl.runs.lock import Lock, locked
from emorl.runs.own_pictures import check_pictures
from emorl.runs.resume import check_directory, prepare
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say
from emorl.training.curriculum import Curriculum
from emorl.training.devices import check_devices, device_of
from emorl.training.distributed import PeerLost
from emorl.training.log import TrainingLog
from emorl.training.loggers import check_logger, open_loggers
from emorl.training.optimizer import load_state

if TYPE_CHECKING:
    from lightning_fabric import Fabric

NEEDED: tuple[Split, ...] = ("train", "validation")  # the splits that training reads


@dataclass
class Progress:
    """What a checkpoint remembers besides weights and optimiser. Batches and noise are functions of the step."""

    step: int = 0
    skipped: int = 0  # steps whose gradient was not finite, in all
    skipped_in_a_row: int = 0
    seconds: float = 0.0  # spent training, over all resumptions
    cpu_seconds: float = 0.0
    waiting_seconds: float = 0.0  # for data

    @staticmethod
    def read(saved: Mapping[str, Any]) -> Progress:
        """Returns what `asdict` has made of it; raises ValueError for anything else."""
        try:
            progress = from_dict(Progress, saved)
        except UserError:
            raise ValueError("its counters are damaged") from None
        if not all(math.isfinite(value) and value >= 0 for value in asdict(progress).values()):
            raise ValueError("its counters are damaged")
        return progress


@contextmanager
def open_directory(
    fabric: Fabric, run: RunConfig, directory: Path, resume: bool
) -> Iterator[tuple[Lock | None, dict[str, Any] | None]]:
    """Locks the directory; yields the lock, in the first process, and the checkpoint to continue from, if any.

    The directory is made only when everything else is found to be right. The first process says what is wrong.
    """
    with ExitStack() as stack:
        problem, lock, checkpoint = None, None, None
        if fabric.is_global_zero:
            try:
                if fabric.world_size > 1:  # or else `check_and_announce` was called before
                    check_and_announce(run, directory, resume=resume)
                if not resume:
                    with progress_bar("looking at pictures") as progress:
                        check_pictures(run.data, progress=progress)
                make_directory(directory)
                lock = stack.enter_context(locked(directory))
                checkpoint = prepare(run, directory, resume=resume)
            except UserError as error:
                problem = str(error)
        problem = fabric.broadcast(problem)
        if problem is not None:
            raise UserError(problem) if fabric.is_global_zero else PeerLost
        yield lock, checkpoint if fabric.is_global_zero or not resume else load_checkpoint(directory)


def check_and_announce(run: RunConfig, directory: Path, *, resume: bool) -> None:
    """Checks settings, data and directory; raises UserError, or prints what will be trained."""
    check_devices(run.train)
    scenes = check(run)
    check_directory(run, directory, resume=resume)
    size, count = scenes.info.image_size, run.train.devices * run.train.nodes
    devices = device_of(run.train) + ("" if count == 1 else f" x {count}")
    beginning = "" if run.train.start_from is None else f", beginning with {run.train.start_from}"
    say(
        f"{'Continuing' if resume else 'Training'} {kind_of(run.model)} on {len(scenes)} images of {scenes.info.name} "
        f"({size} x {size}), {run.train.batch_size} a step, on {devices}, {run.train.steps} steps{beginning}."
    )


def check(run: RunConfig) -> SceneDataset:
    """Raises UserError for settings that cannot be trained with. Returns the scenes to train on."""
    model = shape_of_model(run.model)
    if run.train.num_steps is not None:
        fewest = round(run.train.num_steps.smallest)
        try:
            model.budget(None, fewest)
        except UserError as error:
            raise UserError(f"train.num_steps {str(run.train.num_steps)!r}: {error}") from None
    if run.train.start_from is not None:
        weights, path = weights_of(run.train.start_from, run.model)
        check_weights(model, weights, source=path)
    check_logger(run.train.logger)
    size = model.config.image_size
    found = {split: open_dataset(run.data, split) for split in NEEDED}
    for scenes in found.values():
        if scenes.info.image_size != size:
            raise UserError(
                f"The model takes images of {size} pixels a side; {scenes.info.name} has {scenes.info.image_size}. "
                f"Set --model.image-size {scenes.info.image_size}, or choose other data."
            )
    return found["train"]


def start_from(source: str | None, model: Model) -> None:
    """Copies weights into a new model: those of a run, released ones or a file's; nothing if there is no `source`."""
    if source is not None:
        weights, path = weights_of(source, model.config)
        load_weights(model, weights, source=path)


def weights_of(source: str, config: Any) -> tuple[dict[str, Tensor], Path]:
    """Returns the weights of a run, released ones or a file's, and their path. Raises UserError if `config` is no
    model of their kind.
    """
    if Path(source).is_file():
        return read_weights(Path(source)), Path(source)
    run = Run.open(source)
    if run.kind != kind_of(config):
        raise UserError(f"{source} is of {run.kind}, so {kind_of(config)} cannot begin with it.")
    return read_weights(run.weights), run.weights


def open_log(fabric: Fabric, run: RunConfig, directory: Path, start: int) -> Any:
    """Returns the log of the first process; nothing in the others."""
    if not fabric.is_global_zero:
        return nullcontext()
    if start:
        say(f"Step {start} of {run.train.steps} was reached before; going on from there.")
    return TrainingLog(directory, run.train, start=start, loggers=open_loggers(run, directory))


def restore(
    checkpoint: Mapping[str, Any],
    model: Model,
    optimizer: torch.optim.Optimizer,
    curriculum: Curriculum,
    directory: Path,
) -> Progress:
    """Puts everything back as it was when the checkpoint was saved. Raises UserError where it does not fit the run."""
    path = directory / CHECKPOINT
    try:
        load_weights(model, checkpoint["model"], source=path)
        load_state(optimizer, checkpoint["optimizer"])
        curriculum.load(checkpoint["curriculum"])
        return Progress.read(checkpoint["progress"])
    except UserError as error:
        raise NotResumable(str(error)) from None
    except ValueError as error:
        raise NotResumable(f"{path} cannot be continued: {error}. Train again in another folder.") from None
