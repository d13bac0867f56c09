"""Beginning and continuing a run: a directory belongs to one run, and resuming never changes what is computed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.files import write_json
from emorl.runs.checkpoint import load_checkpoint
from emorl.runs.config import RunConfig, differing
from emorl.runs.directory import (
    CHECKPOINT,
    CONFIG,
    ENVIRONMENT,
    OURS,
    PREVIOUS,
    WEIGHTS,
    append_history,
    read_history,
)
from emorl.runs.own_pictures import remember_pictures, warn_of_changes
from emorl.runs.provenance import stamp
from emorl.schedules import Schedule

Changes = dict[str, tuple[Any, Any]]  # name of a setting -> what it was, what it is

# Settings that a resumed run may have otherwise: how it is watched, and where it computes.
WATCHING = ("log_every", "evaluate_every", "evaluate_images", "checkpoint_every", "logger")
PLACES = ("devices", "nodes", "accelerator", "compile")
FREE = frozenset({*(f"train.{name}" for name in (*WATCHING, *PLACES)), "data.path"})
STEPS = "train.steps"  # may be another one, too, if nothing else depends on it


def prepare(run: RunConfig, directory: Path, *, resume: bool) -> dict[str, Any] | None:
    """Fills a new run directory, or checks that `run` is the one to continue. Returns its checkpoint, if any."""
    check_directory(run, directory, resume=resume)
    path = directory / CONFIG
    if not path.exists() or is_untrained(directory):
        begin(run, directory)
        return None
    before, checkpoint = RunConfig.read(path), load_checkpoint(directory)
    done = 0 if checkpoint is None else int(checkpoint["progress"]["step"])
    if done > max(before.train.steps, run.train.steps):
        raise UserError(
            f"{directory} was saved after step {done}, but {STEPS} is {before.train.steps}: set {STEPS} to what it was."
        )
    changes = check_same(before, run, path, done=done)
    if STEPS in changes:
        write_json(path, before.with_steps(run.train.steps).to_dict())
    warn_of_changes(directory, run.data)
    record(directory, "resume", step=done, changes=changes)
    return checkpoint


def check_directory(run: RunConfig, directory: Path, *, resume: bool) -> None:
    """Raises UserError if `run` can neither begin nor, with `resume`, go on in a directory. Nothing is changed."""
    path = directory / CONFIG
    if os.path.lexists(directory) and not directory.is_dir():
        raise UserError(f"{directory} is a file, not a folder for a run: choose another --out.")
    if not path.exists():
        if found := [name for name in OURS if (directory / name).exists()]:
            raise UserError(
                f"{directory} has a {found[0]} but no {CONFIG}, so it is no run to continue, and nothing in it is "
                "overwritten: choose another --out."
            )
    elif not resume and not is_untrained(directory):
        try:
            check_same(RunConfig.read(path), run.with_whole_paths(), path)
        except UserError:  # it could not be continued like this
            raise UserError(
                f"{directory} holds a run already, with other settings: choose another --out."
            ) from None
        raise UserError(
            f"{directory} holds a run already: add --resume to continue it, or choose another --out."
        )


def begin(run: RunConfig, directory: Path) -> None:
    """Writes what a run begins with."""
    write_json(directory / CONFIG, run.to_dict())
    remember_pictures(directory, run.data)
    record(directory, "start", step=0, changes={})


def is_untrained(directory: Path) -> bool:
    """Whether a training was started there but ended before its first checkpoint, so that it may start anew."""
    if any((directory / name).exists() for name in (CHECKPOINT, PREVIOUS, WEIGHTS)):
        return False
    try:
        RunConfig.read(directory / CONFIG)
        return bool(read_history(directory))
    except UserError:  # files of something else that have the same names
        return False


def record(directory: Path, event: str, *, step: int, changes: Changes) -> None:
    """Writes down when, from which step on, by which version and on what machine a training goes on."""
    where = stamp()
    write_json(directory / ENVIRONMENT, where)
    as_lists = {name: list(values) for name, values in changes.items()}
    time = datetime.now(UTC).isoformat(timespec="seconds")
    append_history(directory, {"event": event, "time": time, "step": step, "changed": as_lists, **where})


def check_same(before: RunConfig, run: RunConfig, path: Path, *, done: int = 0) -> Changes:
    """Returns how `run` differs from `before`, the settings in `path`, if it may after `done` steps.

    Raises UserError naming the setting and the way out where it would compute something else.
    """
    changes = differences(before, run)
    for name, (old, new) in changes.items():
        if name in FREE:
            continue
        if name != STEPS:
            problem = "resuming cannot change what is computed"
        elif dependent := length_dependent(before):
            problem = (
                f"{', '.join(dependent)} depends on it, so the steps already done would have been others"
            )
        elif new < done:
            problem = f"{done} steps are done already"
        else:
            continue
        raise UserError(
            f"{name} was {old!r} when {path.parent} was started and is {new!r} now: {problem}. Leave it as it was "
            f"({resume_command(path.parent)}), or begin a new run with another --out."
        )
    return changes


def resume_command(directory: Path) -> str:
    """Returns the command that continues the run in `directory`."""
    words = ["emorl", "train", str(directory / CONFIG), "--out", str(directory), "--resume"]
    return shlex.join(words)


def differences(before: RunConfig, run: RunConfig) -> Changes:
    """Returns every setting that is not the same in both; of models of different kinds, the kind alone."""
    old, new = before.flat(), run.flat()
    found = {name: (old.get(name), new.get(name)) for name in differing(old, new)}
    return {"model.kind": found["model.kind"]} if "model.kind" in found else found


def length_dependent(run: RunConfig) -> list[str]:
    """Returns the names of the settings whose meaning depends on the number of steps."""
    return [name for name, value in leaves(run) if isinstance(value, Schedule) and value.depends_on_length]


def leaves(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted name, value) of every field; schedules, which are dataclasses themselves, stay whole."""
    for field in fields(config):
        name, value = f"{path}{field.name}", getattr(config, field.name)
        if is_dataclass(value) and not isinstance(value, Schedule):
            yield from leaves(value, f"{name}.")
        else:
            yield name, value
