"""train(): one loop for every model, in the order things happen."""

from __future__ import annotations

import math
import platform
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from emorl.data import open_dataset
from emorl.data.loading import endless
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.models import build
from emorl.models.base import Model
from emorl.probability import noise_from, shard_of_noise
from emorl.training.checkpoint import CONFIG, load_checkpoint, make_directory, save_checkpoint, write_json
from emorl.training.log import TrainingLog
from emorl.training.optimizer import build_optimizer
from emorl.training.run import RunConfig, TrainConfig
from emorl.training.schedules import curriculum_value, learning_rate
from emorl.types import Outcome

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MAX_SKIPPED = 100  # non-finite steps in a row after which training is lost


class Interrupted(Exception):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.signum, self.step = signum, step


@dataclass
class Progress:
    """What a checkpoint remembers besides weights and optimiser. Batches and noise are functions of the step."""

    step: int = 0
    skipped: int = 0  # steps whose gradient was not finite, in all
    skipped_in_a_row: int = 0


class Objective(nn.Module):
    """What fabric and DDP wrap: plain results, because they rebuild what `forward` returns and ours are frozen."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, num_steps: int) -> tuple[Tensor, dict[str, Tensor]]:
        outcome: Outcome = self.model(x, num_steps=num_steps)
        return outcome.loss, dict(outcome.terms)


def train(run: RunConfig, directory: Path, *, resume: bool = False) -> Model:
    """Trains into `directory` and returns the model. Raises Interrupted after SIGINT or SIGTERM."""
    fabric = launch(run)
    checkpoint = open_directory(fabric, run, directory, resume)
    torch.manual_seed(run.train.seed)
    raw = build(run.model)
    optimizer = build_optimizer(run.train.optimizer, raw, lr=run.train.learning_rate)
    objective, wrapped = fabric.setup(Objective(raw), optimizer)
    progress = Progress()
    if checkpoint is not None:
        raw.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        progress = Progress(**checkpoint["progress"])
    scenes = open_dataset(run.data, "train")
    share = {"rank": fabric.global_rank, "world_size": fabric.world_size}
    batches = endless(scenes, run.train.batch_size, seed=run.train.seed, start=progress.step, **share)
    noise = shard_of_noise(**share)

    def save() -> None:
        if fabric.is_global_zero:
            state = {"optimizer": optimizer.state_dict(), "progress": vars(progress), "seed": run.train.seed}
            save_checkpoint(directory, raw, state)

    with open_log(fabric, run, directory, progress.step) as log, stop_requests() as requests:
        while progress.step < run.train.steps:
            step, batch = progress.step, next(batches)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, run.train)
            seed_noise(run.train.seed, step)
            with noise_from(noise):
                I = curriculum_value(run.train.curriculum, step)
                loss, terms = objective(batch.image.to(fabric.device), I)
            wrapped.zero_grad(set_to_none=True)
            fabric.backward(loss)
            grad_norm = clip(fabric, objective, wrapped, run.train)
            terms = mean_over_ranks(fabric, {"loss": loss, **terms, "stop": float(bool(requests))})
            is_finite = bool(grad_norm.isfinite())  # the same on every rank: gradients have been averaged
            if is_finite:
                wrapped.step()
                raw.adapt(terms)
            count_skips(progress, is_finite, directory)
            progress.step += 1

            is_last = progress.step == run.train.steps
            must_stop = bool(terms.pop("stop") > 0)  # on every rank, if on one
            if log is not None:
                is_due = is_last or must_stop or progress.step % run.train.evaluate_every == 0
                if is_due or step % run.train.log_every == 0:
                    values = {name: float(term) for name, term in terms.items()}
                    values |= {"grad_norm": float(grad_norm), "skipped": progress.skipped, "num_steps": I}
                    log.write(step, values | (validate(raw, run) if is_due and not must_stop else {}))
                log.advance(progress.step)
                if is_due:
                    log.evaluated(progress.step)
            if is_last or must_stop or progress.step % run.train.checkpoint_every == 0:
                save()
            if must_stop:
                if log is not None:
                    log.say(f"Stopped at step {progress.step}; everything is saved. Continue with:")
                    log.say(f"  emorl train {directory / CONFIG} --out {directory} --resume")
                raise Interrupted(requests[0] if requests else signal.SIGTERM, progress.step)
        if log is not None:
            log.say(f"Trained for {progress.step} steps. Next: emorl evaluate {directory}")
    return raw.eval()


def launch(run: RunConfig) -> Fabric:
    """Starts the processes a run asks for; fabric also recognises torchrun and SLURM."""
    from lightning_fabric import Fabric  # here, because importing it takes seconds
    from lightning_fabric.strategies.ddp import DDPStrategy

    train = run.train
    strategy: Any = "auto"
    if train.devices > 1:
        with torch.device("meta"):
            model = build(run.model)
        is_fully_used = all(model.is_fully_used(I) for _, I in train.curriculum)
        strategy = DDPStrategy(find_unused_parameters=not is_fully_used)
    fabric = Fabric(
        accelerator=train.accelerator, devices=train.devices, precision=train.precision, strategy=strategy
    )
    fabric.launch()
    return fabric


def open_directory(fabric: Fabric, run: RunConfig, directory: Path, resume: bool) -> dict[str, Any] | None:
    """Returns the checkpoint to continue from, if any. What is wrong with the directory, all ranks learn from one."""
    problem, checkpoint = None, None
    if fabric.is_global_zero:
        try:
            checkpoint = prepare(run, directory, resume)
        except UserError as error:
            problem = str(error)
    problem = fabric.broadcast(problem)
    if problem is not None:
        raise UserError(problem)
    return checkpoint if fabric.is_global_zero or not resume else load_checkpoint(directory)


def prepare(run: RunConfig, directory: Path, resume: bool) -> dict[str, Any] | None:
    """Makes the run directory, or checks that the one there is the run to continue. Returns its checkpoint, if any."""
    make_directory(directory)
    path = directory / CONFIG
    checkpoint = None
    open_dataset(run.data, "validation")  # a mistake there should not wait for the first evaluation
    if path.exists():
        if not resume:
            raise UserError(
                f"{directory} holds a run already: add --resume to continue it, or choose another --out."
            )
        before = RunConfig.read(path)
        for group in ("model", "data"):
            if getattr(before, group) != getattr(run, group):
                raise UserError(
                    f"The {group} settings differ from those that {directory} was started with; "
                    f"continue it with `emorl train {path} --out {directory} --resume`."
                )
        if before.train.seed != run.train.seed or before.train.batch_size != run.train.batch_size:
            raise UserError(f"train.seed and train.batch_size must stay as they were in {path}.")
        checkpoint = load_checkpoint(directory)
    write_json(path, run.to_dict())
    write_json(directory / "environment.json", environment())
    return checkpoint


def environment() -> dict[str, Any]:
    """What the numbers of a run may depend on, besides its config."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def open_log(fabric: Fabric, run: RunConfig, directory: Path, start: int) -> Any:
    if not fabric.is_global_zero:
        return nullcontext()
    return TrainingLog(directory, start=start, steps=run.train.steps, batch_size=run.train.batch_size)


def seed_noise(seed: int, step: int) -> None:
    """The noise of a step is a function of (seed, step), so resuming needs no generator's state."""
    torch.manual_seed(int(np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)[0] >> 1))


def clip(fabric: Fabric, model: Any, optimizer: Any, train: TrainConfig) -> Tensor:
    """Scales the gradient down to the configured norm. Returns the norm it had."""
    norm = fabric.clip_gradients(model, optimizer, max_norm=train.max_grad_norm, error_if_nonfinite=False)
    assert norm is not None
    return norm


def mean_over_ranks(fabric: Fabric, terms: Mapping[str, Tensor | float]) -> dict[str, Tensor]:
    """Means over the global batch, in one exchange."""
    means = torch.stack(
        [torch.as_tensor(term, device=fabric.device).float().mean().detach() for term in terms.values()]
    )
    if fabric.world_size > 1:
        means = fabric.all_reduce(means, reduce_op="mean")  # type: ignore[assignment]
    return dict(zip(terms, means, strict=True))


def count_skips(progress: Progress, is_finite: bool, directory: Path) -> None:
    """A step without a finite gradient changes nothing and is counted; too many in a row end the run."""
    progress.skipped += not is_finite
    progress.skipped_in_a_row = 0 if is_finite else progress.skipped_in_a_row + 1
    if progress.skipped_in_a_row >= MAX_SKIPPED:
        raise UserError(
            f"Training diverged: the last {MAX_SKIPPED} gradients were not finite. The last checkpoint in {directory} "
            "is intact; try a lower --train.learning-rate."
        )


def validate(model: Model, run: RunConfig) -> dict[str, float]:
    """Scores on held-out scenes; neither weights nor the course of training depend on it."""
    scenes = open_dataset(run.data, "validation")
    scores = evaluate(model, scenes, images=run.train.evaluate_images, num_steps=None)
    wanted = [name for name in scores.values if not name.startswith("update_")]
    return {f"validation_{name}": scores.mean(name) for name in wanted if math.isfinite(scores.mean(name))}


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM instead of dying of them; a second signal has its usual effect."""
    received: list[int] = []
    previous: dict[int, Any] = {}

    def receive(signum: int, frame: object) -> None:
        received.append(signum)
        for number, handler in previous.items():
            signal.signal(number, handler)
        print("\nStopping after this step ...", file=sys.stderr, flush=True)  # noqa: T201

    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            previous[number] = signal.signal(number, receive)
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
