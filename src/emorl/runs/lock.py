"""One training per run directory: a lock that the kernel releases, however the process that holds it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emorl.errors import UserError
from emorl.runs.directory import LOCK

try:
    import fcntl
except ImportError:  # not a Unix: trainings go unlocked there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps other trainings out of `directory`; raises UserError if one is there."""
    path = directory / LOCK
    file = take(path)
    if file is None:
        raise UserError(
            f"{directory} is in use: process {holder(path)} is training there. "
            "Wait for it, stop it, or choose another --out."
        )
    try:
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def is_abandoned(directory: Path) -> bool:
    """Whether the training that locked `directory` has died without tidying up."""
    path = directory / LOCK
    if fcntl is None or not path.exists():
        return False
    file = take(path)
    if file is not None:
        os.close(file)
    return file is not None


def take(path: Path) -> int | None:
    """Opens and locks the file `path`; None if another process has it locked."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror}.") from None
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            return file  # a file system without locks
        # Whoever held it before may have removed the file between our opening and locking it.
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            return file
        os.close(file)


def holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"
