"""metrics.jsonl, and progress on the console: a live bar on a terminal, a line per evaluation elsewhere."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from emorl.errors import UserError
from emorl.training.checkpoint import write_bytes

METRICS = "metrics.jsonl"


def read_metrics(directory: Path) -> list[dict[str, float]]:
    """Returns the lines of metrics.jsonl; one torn by a crash is left out."""
    path = directory / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


class TrainingLog:
    """Writes what training measures. Lines after the step that a run resumes from are dropped: they come again."""

    def __init__(self, directory: Path, *, start: int, steps: int, batch_size: int) -> None:
        kept = [record for record in read_metrics(directory) if record["step"] < start]
        write_bytes(directory / METRICS, "".join(json.dumps(record) + "\n" for record in kept).encode())
        self.path = directory / METRICS
        self.batch_size = batch_size
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
        self.task = self.progress.add_task("train", total=steps, completed=start, status="")
        self.start, self.steps = start, steps
        self.latest: dict[str, float] = next((r for r in reversed(kept) if "validation_ari" in r), {})

    def __enter__(self) -> Self:
        self.file = open(self.path, "a", encoding="utf-8")
        self.progress.start()
        self.started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        try:
            self.file.close()
        except OSError as problem:  # unwritten lines of a full disk
            raise cannot_write(self.path, problem) from None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Appends a line; values that are not finite are written as null, because JSON has no NaN."""
        self.latest |= values
        clean = {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            self.file.write(json.dumps({"step": step, **clean}) + "\n")
            self.file.flush()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def advance(self, step: int) -> None:
        """Moves the bar to `step` steps done."""
        if not self.progress.disable:
            self.progress.update(self.task, completed=step, status=self.status(step))

    def evaluated(self, step: int) -> None:
        """Prints a line for people whose console keeps no bar."""
        if self.progress.disable:
            elapsed = time.perf_counter() - self.started
            left = elapsed / max(1, step - self.start) * (self.steps - step)
            self.say(f"step {step}/{self.steps}  {self.status(step)}  {left / 60:.1f} min left")

    def status(self, step: int) -> str:
        images = (step - self.start) * self.batch_size
        rate = images / max(1e-9, time.perf_counter() - self.started)
        known = {"loss": "loss {:.4g}", "validation_ari": "ARI {:.3f}", "validation_mse": "MSE {:.4f}"}
        parts = [text.format(self.latest[name]) for name, text in known.items() if name in self.latest]
        return "  ".join([*parts, f"{rate:.0f} images/s"])

    def say(self, message: str) -> None:
        self.console.print(message, highlight=False, soft_wrap=True)


def cannot_write(path: Path, error: OSError) -> UserError:
    reason = error.strerror or os.strerror(error.errno or 0)
    return UserError(
        f"Cannot write {path}: {reason}. The last checkpoint is intact; free some space and --resume."
    )
