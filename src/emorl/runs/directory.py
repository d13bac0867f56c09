"""A run directory: the name of every file in it, and reading and writing what is kept line by line."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from emorl.errors import Unreadable, UserError
from emorl.evaluation.metrics import renamed
from emorl.files import append_line, cause, open_regular

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
LONGEST_LINE = 2**20  # bytes of it; ours have about a thousand
MOST_VALUES = 2**23  # in all lines; they take 64 bytes each


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
    append_line(directory / HISTORY, json.dumps(record))


def read_lines(path: Path, is_right: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Returns the JSON objects of a file with one on each line, if `is_right` of each; nothing if there is no file."""
    if not path.exists():
        return []
    records: list[dict[str, Any]] = []
    count = 0
    with open_regular(path, largest=LARGEST_LOG) as file:
        for number, line in enumerate(lines_of(file, path), start=1):
            record = object_in(line)
            if record is not None and is_right(record):
                records.append({sys.intern(name): value for name, value in record.items()})
                count += len(record)
            elif line.strip() and line.endswith(b"\n"):  # the last one, without an end, was torn by a crash
                raise UserError(f"{path} is damaged in line {number}: delete that line, or the file.")
            if count > MOST_VALUES:
                raise Unreadable(path, f"it has more than {MOST_VALUES} values")
    return records


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yields the lines of a file. Raises Unreadable for one that is longer than any of ours."""
    try:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise Unreadable(path, f"it has a line of more than {LONGEST_LINE} bytes")
            yield line
    except OSError as error:
        raise Unreadable(path, cause(error)) from None


def object_in(line: bytes) -> dict[str, Any] | None:
    """Returns the JSON object on a line; None if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_measurement(record: dict[str, Any]) -> bool:
    """Whether a line of metrics.jsonl has a step, and finite numbers or None otherwise."""
    step = record.get("step")
    return (
        type(step) is int
        and step >= 0
        and all(value is None or is_finite(value) for value in record.values())
    )


def is_finite(value: object) -> bool:
    """Whether a value is a number that a float can hold: neither NaN nor infinite, nor an integer beyond all floats."""
    most = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most
