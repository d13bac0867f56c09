"""One training per run directory: a lock that the kernel releases, however the process that holds it ends.

Not filelock (4.2 was tried): its message names no process, it takes files and pipes of others for locks, it leaves its
file behind, and after the directory was deleted and made again two trainings hold it at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emorl.errors import UserError
from emorl.files import cause, check_regular
from emorl.runs.directory import LOCK, NotResumable

try:
    import fcntl
except ImportError:  # not a Unix: trainings go unlocked there
    fcntl = None  # type: ignore[assignment]


class Replaced(NotResumable):
    """The run directory has become another one while we trained: what is there now is not ours to touch."""


class Lock:
    """The right to write into a run directory, as long as the directory is the one it was taken in."""

    def __init__(self, directory: Path, file: int) -> None:
        self.directory, self.file = directory, file

    @property
    def is_held(self) -> bool:
        """Whether the lock file is still the one that we locked; it is not if the directory was deleted."""
        try:
            return os.path.samestat(os.fstat(self.file), (self.directory / LOCK).stat())
        except OSError:
            return False

    def check(self) -> None:
        """Raises Replaced if the directory was deleted since, whether or not there is another in its place."""
        if not self.is_held:
            raise Replaced(
                f"{self.directory} was deleted or replaced while this training ran. It stops here, and writes nothing "
                "to what is there now."
            )


@contextmanager
def locked(directory: Path) -> Iterator[Lock]:
    """Keeps other trainings out of `directory`; raises UserError if one is there."""
    path = directory / LOCK
    file = open_locked(path)
    if file is None:
        raise UserError(
            f"{directory} is in use: process {holder(path)} is training there. "
            "Wait for it, stop it, or choose another --out."
        )
    lock = Lock(directory, file)
    try:
        try:
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
        except OSError as error:  # a full disk
            raise UserError(f"Cannot write {path}: {cause(error)}.") from None
        yield lock
    finally:
        if lock.is_held:
            path.unlink(missing_ok=True)
        os.close(file)


def is_abandoned(directory: Path) -> bool:
    """Whether the training that locked `directory` has died without tidying up."""
    path = directory / LOCK
    if fcntl is None or not path.exists():
        return False
    file = open_locked(path)
    if file is not None:
        os.close(file)
    return file is not None


def open_locked(path: Path) -> int | None:
    """Opens and locks the file `path`; None if another process has it locked. Raises UserError if it is no lock."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    while True:
        try:
            file = os.open(path, flags, 0o644)
        except OSError as error:
            raise UserError(f"Cannot write {path}: {cause(error)}.") from None
        try:
            check_ours(path, file)
        except BaseException:
            os.close(file)
            raise
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


def check_ours(path: Path, file: int) -> None:
    """Raises UserError unless a lock file is empty or holds the number of a process, as ours do."""
    check_regular(path, os.fstat(file))
    content = os.read(file, 32)
    os.lseek(file, 0, os.SEEK_SET)  # what is written next stands at its beginning
    if content.strip() and not (content.endswith(b"\n") and content.strip().isdigit()):
        raise UserError(f"{path} was not written by emorl, so it is left alone: choose another --out.")


def holder(path: Path) -> str:
    """Returns the id of the process that has `path` locked, as far as it has written it."""
    try:
        return path.read_text(encoding="utf-8").strip() or "unknown"
    except (OSError, ValueError):
        return "unknown"
