"""Opening a run directory: a new one is made, an old one is continued only if it is the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.files import write_json
from emorl.runs.checkpoint import load_checkpoint
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG, ENVIRONMENT
from emorl.runs.provenance import stamp


def prepare(run: RunConfig, directory: Path, *, resume: bool) -> dict[str, Any] | None:
    """Fills a new run directory, or checks that this is the run to continue. Returns its checkpoint, if any."""
    path = directory / CONFIG
    checkpoint = None
    if path.exists():
        if not resume:
            raise UserError(
                f"{directory} holds a run already: add --resume to continue it, or choose another --out."
            )
        check_same(RunConfig.read(path), run, path)
        checkpoint = load_checkpoint(directory)
    write_json(path, run.to_dict())
    write_json(directory / ENVIRONMENT, stamp())
    return checkpoint


def check_same(before: RunConfig, run: RunConfig, path: Path) -> None:
    """The length of a training may change on the way, and how it is watched; what it computes may not."""
    for group in ("model", "data"):
        if getattr(before, group) != getattr(run, group):
            raise UserError(
                f"The {group} settings differ from those that {path.parent} was started with; "
                f"continue it with `emorl train {path} --out {path.parent} --resume`."
            )
    for name in ("seed", "batch_size", "optimizer"):
        if getattr(before.train, name) != getattr(run.train, name):
            raise UserError(f"train.{name} must stay {getattr(before.train, name)!r}, as it was in {path}.")
