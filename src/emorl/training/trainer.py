"""train(): one loop for every model, in the order things happen."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from emorl.data import open_dataset
from emorl.data.loading import endless, prefetch
from emorl.evaluation.evaluate import evaluate
from emorl.models import build
from emorl.models.base import Model, NotFinite
from emorl.probability import Noise, process_noise
from emorl.runs.allocator import keep_freed_memory
from emorl.runs.checkpoint import save_checkpoint
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.directory import NotResumable, directory_of
from emorl.runs.lock import Lock
from emorl.runs.presets import run_of
from emorl.runs.resume import resume_command
from emorl.training.curriculum import Curriculum
from emorl.training.devices import launch
from emorl.training.distributed import failing_together, mean_over_ranks
from emorl.training.log import diagnose
from emorl.training.optimizer import build_optimizer
from emorl.training.setup import Progress, check_and_announce, open_directory, open_log, restore, start_from
from emorl.training.signals import Interrupted, stop_requests
from emorl.types import Outcome

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MAX_SKIPPED = 100  # non-finite steps in a row after which training is lost
SETTLED = 1000  # steps after which training warns of a run that looks collapsed


class Objective(nn.Module):
    """What fabric and DDP wrap: plain results, because they rebuild what `forward` returns and ours are frozen.

    Autocast is here and not fabric's, which would round the images that likelihoods are about to bf16, too.
    """

    def __init__(self, model: Model, precision: str, noise: Noise) -> None:
        super().__init__()
        self.model, self.is_mixed, self.noise = model, precision == "bf16-mixed", noise

    def forward(self, x: Tensor, num_steps: int | None) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.is_mixed):
            outcome: Outcome = self.model(x, num_steps=num_steps, noise=self.noise)
        return outcome.loss, dict(outcome.terms)


def train(
    run: RunConfig | str | Path,
    directory: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> Model:
    """Trains into `directory` and returns the model. Raises Interrupted after SIGINT or SIGTERM.

    `run` is a configuration, the name of a preset or the path of a config.json. `settings` change some of it, by their
    names on the command line: {"train.steps": 100, "data.path": "photos"}. With `resume`, the run that is there goes
    on.
    """
    run, directory = run_of(run, settings or {}), directory_of(directory)
    # Numbers below 1e-38 are nothing here, but sure masks are full of them and CPUs are slow at them. Threads take
    # this over when they start, so it comes first.
    torch.set_flush_denormal(True)
    keep_freed_memory()  # a tenth of a step, or more, would go into getting it back
    if run.train.devices * run.train.nodes == 1:  # several processes first agree on what is wrong
        check_and_announce(run, directory, resume=resume)
    run = run.with_whole_paths()
    fabric = launch(run)
    with (
        open_directory(fabric, run, directory, resume) as (lock, checkpoint),
        failing_together(fabric, directory),
    ):
        return optimise(fabric, run, directory, lock, checkpoint)


def optimise(
    fabric: Fabric, run: RunConfig, directory: Path, lock: Lock | None, checkpoint: Mapping[str, Any] | None
) -> Model:
    """The loop, from the step of the checkpoint on. The first process, which alone writes, holds the `lock`."""
    torch.manual_seed(run.train.seed)
    model = build(run.model)
    if checkpoint is None:
        start_from(run.train.start_from, model)
    if run.train.compile:
        model.compile_parts()
    optimizer = build_optimizer(model, run.train)
    share = {"rank": fabric.global_rank, "world_size": fabric.world_size}
    objective, wrapped = fabric.setup(
        Objective(model, run.train.precision, process_noise(**share)), optimizer
    )
    schedules = {"learning_rate": run.train.learning_rate, **model.schedules}
    progress = Progress()
    curriculum = Curriculum(run.train.num_steps, run.train.drop_below, run.train.steps)
    if checkpoint is not None:
        progress = restore(checkpoint, model, optimizer, curriculum, directory)
    scenes = open_dataset(run.data, "train")
    walk = endless(scenes, run.train.batch_size, seed=run.train.seed, start=progress.step, **share)

    def save() -> None:
        if lock is not None:
            state = {"progress": asdict(progress), "curriculum": curriculum.state}
            state |= {"optimizer": optimizer.state_dict()}
            save_checkpoint(directory, model, state, check=lock.check)

    with (
        open_log(fabric, run, directory, progress.step) as log,
        closing(prefetch(walk)) as batches,
        stop_requests() as requests,
    ):
        while progress.step < run.train.steps:
            step, started = progress.step, (time.perf_counter(), time.process_time())
            batch, I = next(batches), curriculum.num_steps(step)
            progress.waiting_seconds += time.perf_counter() - started[0]
            scheduled = {name: s.at(step, run.train.steps) for name, s in schedules.items()}
            model.follow({name: scheduled[name] for name in model.schedules})
            for group in optimizer.param_groups:
                group["lr"] = scheduled["learning_rate"]
            seed_noise(run.train.seed, step)
            loss, terms = objective(batch.image.to(fabric.device), I)
            wrapped.zero_grad(set_to_none=True)
            fabric.backward(loss)
            grad_norm = clip(fabric, objective, wrapped, run.train)
            terms = mean_over_ranks(fabric, {"loss": loss, **terms, "stop": float(bool(requests))})
            is_finite = bool(grad_norm.isfinite())  # the same on every rank: gradients have been averaged
            if is_finite:
                wrapped.step()
                model.adapt(terms)
                curriculum.update(I, terms)
            advance(progress, is_finite, started)
            if progress.skipped_in_a_row >= MAX_SKIPPED and fabric.is_global_zero:  # one message for all
                raise NotResumable(
                    f"Training diverged: the last {MAX_SKIPPED} gradients were not finite. Start again in another "
                    "--out with a lower --train.learning-rate."
                )

            is_last = progress.step == run.train.steps
            if is_last:  # what is scored and saved is what is used later
                model.follow(
                    {name: s.at(progress.step, run.train.steps) for name, s in model.schedules.items()}
                )
            must_stop = bool(terms.pop("stop") > 0)  # on every rank, if on one
            if log is not None:
                is_due = is_last or progress.step % run.train.evaluate_every == 0
                values = {name: float(term) for name, term in terms.items()}
                values |= {**scheduled, "grad_norm": float(grad_norm), "skipped": progress.skipped}
                values |= {} if I is None else {"num_steps": I}
                values |= {"seconds": progress.seconds, "cpu_seconds": progress.cpu_seconds}
                values |= {"waiting_seconds": progress.waiting_seconds}
                log.step(step, values, validate(model, run) if is_due else None, is_last=must_stop)
                if is_due and progress.step >= SETTLED:
                    log.warn(diagnose(log.scores))
            if is_last or must_stop or progress.step % run.train.checkpoint_every == 0:
                save()
            if must_stop:
                fabric.barrier()  # nobody leaves before all is saved
                if log is not None:
                    log.say(f"Stopped at step {progress.step}; everything is saved. Continue with:")
                    log.say(f"  {resume_command(directory)}")
                raise Interrupted(requests[0] if requests else signal.SIGTERM, progress.step)
        if log is not None:
            log.say(f"Trained for {progress.step} steps. Next: emorl evaluate {shlex.quote(str(directory))}")
    return model.eval()


def seed_noise(seed: int, step: int) -> None:
    """The noise of a step is a function of (seed, step), so resuming needs no generator's state."""
    torch.manual_seed(int(np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)[0] >> 1))


def clip(fabric: Fabric, objective: Any, optimizer: Any, train: TrainConfig) -> Tensor:
    """Scales the gradient down to the configured norm. Returns the norm it had."""
    norm = fabric.clip_gradients(objective, optimizer, max_norm=train.max_grad_norm, error_if_nonfinite=False)
    assert norm is not None
    return norm


def advance(progress: Progress, is_finite: bool, started: tuple[float, float]) -> None:
    """Counts the step. One without a finite gradient has changed nothing."""
    progress.step += 1
    progress.seconds += time.perf_counter() - started[0]
    progress.cpu_seconds += time.process_time() - started[1]
    progress.skipped += not is_finite
    progress.skipped_in_a_row = 0 if is_finite else progress.skipped_in_a_row + 1


def validate(model: Model, run: RunConfig) -> dict[str, float]:
    """Scores on held-out scenes, none if they make no sense; neither weights nor training depend on them."""
    with torch.compiler.set_stance("force_eager"):  # other batch sizes would be compiled anew
        try:
            scores = evaluate(model, open_dataset(run.data, "validation"), images=run.train.evaluate_images)
        except NotFinite:
            return {}
    return {name: scores.mean(name) for name in scores.values}
