"""A run directory: the name of every file in it, and reading and writing what is kept line by line."""

from __future__ import annotations

import json
import os
import reprlib
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.evaluation.metrics import renamed
from emorl.files import cause, read_bytes

CONFIG = "config.json"  # every setting of the run
# A line for each start and resume: when, with which version and machine, and which settings changed.
HISTORY = "history.jsonl"
ENVIRONMENT = "environment.json"  # package and machine of the last start
METRICS_FILE = "metrics.jsonl"  # what training measured, a line every few steps
CHECKPOINT = "checkpoint.pt"  # everything --resume needs
PREVIOUS = "checkpoint.previous.pt"  # the one before, in case the last one is damaged
WEIGHTS = "weights.safetensors"  # the trained model
PICTURES = "pictures.json"  # of a run on a folder of pictures: their names, by split
SCORES = "scores.json"  # of `emorl evaluate`
MODEL = "model.safetensors"  # in a folder of `save_pretrained` instead of a run: the model, with its card
README = "README.md"  # in such a folder: the card to read
LOCK = ".lock"  # holds the id of the process that trains; gone after an orderly end

# What a training writes besides CONFIG. A folder with one of these and no CONFIG holds something else.
OURS = (HISTORY, ENVIRONMENT, PICTURES, METRICS_FILE, CHECKPOINT, PREVIOUS, WEIGHTS)

LARGEST_LOG = 2**30  # bytes of metrics.jsonl; a line for each of a million steps has less


class NotResumable(UserError):
    """A training has failed, and to continue it with the same settings would fail again."""


def directory_of(path: str | Path) -> Path:
    """Returns the path of a run directory, which may be there or not. Raises UserError for what is no path."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise UserError(f"A run directory is named by a path, not by {reprlib.repr(path)}.")
    return Path(path)


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl, each with its "step" and numbers, None for those that were not finite.

    Names of earlier versions become today's. A last line that was torn by a crash is left out; raises UserError for any
    other damage.
    """
    return [renamed(record) for record in read_lines(directory / METRICS_FILE, is_measurement)]


def read_history(directory: Path) -> list[dict[str, Any]]:
    """Returns what is known of each start and resume, oldest first; nothing for runs of versions before 0.2."""
    return read_lines(directory / HISTORY, lambda record: "event" in record)


def append_history(directory: Path, record: dict[str, Any]) -> None:
    """Adds a line to history.jsonl. What stands there already is never changed."""
    path = directory / HISTORY
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"Cannot write {path}: {cause(error)}.") from None


def read_lines(path: Path, is_right: Any) -> list[dict[str, Any]]:
    """Returns the JSON objects of a file with one on each line, if `is_right` of each; nothing if there is no file."""
    if not path.exists():
        return []
    lines = read_bytes(path, largest=LARGEST_LOG).split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and is_right(record):
            records.append(record)
        elif number < len(lines):  # the last one, which has no end of line, was torn by a crash
            raise UserError(f"{path} is damaged in line {number}: delete that line, or the file.")
    return records


def is_measurement(record: dict[str, Any]) -> bool:
    """Whether a line of metrics.jsonl has a step, and numbers or None otherwise."""
    step = record.get("step")
    are_numbers = all(value is None or type(value) in (int, float) for value in record.values())
    return type(step) is int and step >= 0 and are_numbers
