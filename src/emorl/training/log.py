"""metrics.jsonl, progress on the console (a bar on a terminal, lines elsewhere), and warnings about a bad run."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from emorl.errors import UserError, printable
from emorl.evaluation.metrics import metric
from emorl.files import write_bytes
from emorl.runs.config import TrainConfig
from emorl.runs.directory import METRICS_FILE, read_metrics
from emorl.training.console import QUIET, duration

FIRST = 1.0  # seconds of training after which one can say how long it will take
MOST_QUIET = 30.0  # seconds between lines of a long training where there is no terminal
COLLAPSED, ONE_SLOT = 0.05, 1.5  # explained variance, and slots used, below which a run looks wrong
PROGRESS = ("ari", "mse", "slots_used", "kl")  # validation scores in a progress line


def described(name: str, value: float) -> str:
    """Returns the title and the value of a metric, as METRICS has them."""
    entry = metric(name)
    return f"{entry.title} {entry.text(value)}{' ' if entry.unit else ''}{entry.unit}"


class TrainingLog:
    """Writes what training measures. Lines after the step that a run resumes from are dropped: they come again."""

    def __init__(
        self, directory: Path, train: TrainConfig, *, start: int, loggers: Sequence[Any] = ()
    ) -> None:
        kept = [record for record in read_metrics(directory) if record["step"] < start]
        write_bytes(directory / METRICS_FILE, "".join(json.dumps(record) + "\n" for record in kept).encode())
        self.path = directory / METRICS_FILE
        self.train, self.start, self.loggers = train, start, loggers
        self.values: dict[str, float] = {}  # the newest
        self.scores: dict[str, float] = {}  # on validation scenes, the newest
        self.warned: set[str] = set()
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("[bold]step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task("train", total=train.steps, completed=start, status="")

    def __enter__(self) -> Self:
        self.file = open(self.path, "a", encoding="utf-8")
        self.progress.start()
        self.started = time.perf_counter()
        self.spoken = self.started + FIRST - QUIET
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        for logger in self.loggers:
            logger.finalize("success" if error is None else "failed")
        try:
            self.file.close()
        except OSError as problem:  # unwritten lines of a full disk
            raise cannot_write(self.path, problem) from None

    def step(
        self, step: int, values: Mapping[str, float], scores: Mapping[str, float] | None, *, is_last: bool
    ) -> None:
        """Takes note of a step, and of the validation scores after it if there are any."""
        self.values = dict(values)
        if scores is not None:
            self.scores = dict(scores)
        if scores is not None or is_last or step % self.train.log_every == 0:
            self.write(
                {"step": step, **values, **{f"validation_{name}": v for name, v in (scores or {}).items()}}
            )
        self.progress.update(self.task, completed=step + 1, status=self.status(step + 1))
        if scores is not None or self.is_line_due():
            elapsed = time.perf_counter() - self.started
            left = elapsed / (step + 1 - self.start) * (self.train.steps - step - 1)
            details = self.details() if scores is not None else []
            summary = "  ".join([self.status(step + 1), *details, f"{duration(left)} left"])
            self.say(f"step {step + 1}/{self.train.steps}  {summary}")
            self.spoken = time.perf_counter()

    def is_line_due(self) -> bool:
        """Whether it is time for a line of progress where there is no bar; they come less often in a long training."""
        now = time.perf_counter()
        often = min(MOST_QUIET, max(QUIET, (now - self.started) / 50))
        return not self.console.is_terminal and now - self.spoken >= often

    def write(self, record: Mapping[str, float]) -> None:
        """Appends a line; values that are not finite are written as null, because JSON has no NaN."""
        clean = {name: value if math.isfinite(value) else None for name, value in record.items()}
        try:
            self.file.write(json.dumps(clean) + "\n")
            self.file.flush()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        for logger in self.loggers:
            logger.log_metrics({name: v for name, v in clean.items() if v is not None}, int(record["step"]))

    def status(self, done: int) -> str:
        """Returns the loss, the newest validation scores and the speed, in a line."""
        rate = (done - self.start) * self.train.batch_size / max(1e-9, time.perf_counter() - self.started)
        shown = [name for name in PROGRESS if name in self.scores]
        parts = [f"loss {self.values['loss']:.4g}", *(described(name, self.scores[name]) for name in shown)]
        return "  ".join([*parts, f"{rate:.0f} images/s"])

    def details(self) -> list[str]:
        """What tells why a run goes well or badly: KL of each layer, size of each refinement, and its weight."""
        parts = []
        for family, title in (("kl", "KL by layer"), ("update", "refined by")):
            values = [f"{v:.3g}" for name, v in self.values.items() if re.fullmatch(rf"{family}_\d+", name)]
            parts += [" ".join([title, *values])] if values else []
        return parts + [described(name, v) for name, v in self.values.items() if name == "nll_weight"]

    def warn(self, problem: str | None) -> None:
        """Says what looks wrong, once for each kind of problem."""
        if problem is not None and problem[:20] not in self.warned:  # numbers further on may differ
            self.warned.add(problem[:20])
            self.say(f"Warning: {problem}", style="yellow")

    def say(self, message: str, *, style: str = "") -> None:
        """Prints a line as it is: names of files may look like rich's markup, and may hold anything."""
        message = "".join(map(printable, message))
        self.console.print(message, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)


def cannot_write(path: Path, error: OSError) -> UserError:
    """Returns what to raise when a line could not be written."""
    reason = error.strerror or os.strerror(error.errno or 0)
    return UserError(f"Cannot write {path}: {reason}. Free some space.")


def diagnose(scores: Mapping[str, float]) -> str | None:
    """Returns what looks wrong in validation `scores` and what to try, or None.

    Every run looks collapsed at the start; ask when it should have left that state.
    """
    if not scores:
        return (
            "What the model computes of validation scenes holds numbers that are not finite: this run is about to "
            "diverge. Start again in another --out with a lower --train.learning-rate."
        )
    explained, used = scores["explained"], scores["slots_used"]
    if explained < COLLAPSED:
        return (
            f"This run looks collapsed: reconstructions explain {100 * max(0.0, explained):.0f} % of the images' "
            "variance. Weigh the reconstruction more against the KL: for efficient-morl a lower "
            "--model.objective.kl-weight at first, a higher --model.objective.nll-weight, or "
            "--model.inference.scale-bias -6."
        )
    if used < ONE_SLOT:
        return (
            f"All objects seem to sit in one slot ({used:.1f} slots used on average). Another --train.seed often "
            "helps; so do more refinement steps early on (--train.num-steps 3) and a lower learning rate."
        )
    return None
