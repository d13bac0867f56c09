"""Reading files that may be anything, and writing them so that a crash leaves the old one or the new one."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from emorl.errors import Unreadable, UserError

LARGEST_JSON = 2**25  # bytes; the longest ones we write, lists of file names, have a few million
MOST_GROUPS = 2**20  # lists and objects in JSON: each takes thirty times the memory of its two letters
# Is in every file that a command writes to a place the user names, if its format can hold a text.
MARK = "made by emorl"
EDGES = 2**16  # bytes at the beginning and at the end of a file among which MARK is
ABANDONED = 3600  # seconds after which a temporary file belongs to a process that was killed

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, *, largest: int | None = None) -> BinaryIO:
    """Opens a file for reading. Raises Unreadable if it is no regular file or has more bytes than `largest`.

    Opening a pipe waits for a writer for ever, and opening a device may do anything. So the kind of file is checked
    before opening, and again afterwards in case the file was replaced in between.
    """
    try:
        check_regular(path, os.stat(path))
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise Unreadable(path, cause(error)) from None
    try:
        found = os.fstat(file.fileno())
        check_regular(path, found)
        if largest is not None and found.st_size > largest:
            raise Unreadable(path, f"it has {found.st_size} bytes, and {largest} are the limit")
    except BaseException:
        file.close()
        raise
    return file


def check_regular(path: Path, found: os.stat_result) -> None:
    """Raises Unreadable if `found`, the stat of `path`, is not that of a regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise Unreadable(path, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise Unreadable(path, f"it is {kind}, not a file")


def read_bytes(path: Path, *, largest: int) -> bytes:
    """Returns the content of a regular file of at most `largest` bytes."""
    with open_regular(path, largest=largest) as file:
        try:
            return file.read(largest)
        except OSError as error:
            raise Unreadable(path, cause(error)) from None


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object, or raises UserError naming the file and what is wrong with it."""
    content = read_bytes(path, largest=LARGEST_JSON)
    if content.count(b"[") + content.count(b"{") > MOST_GROUPS:
        raise UserError(
            f"{path} is not JSON that can be read: it has more than {MOST_GROUPS} lists and objects."
        )
    try:
        values = json.loads(content)
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}.") from None
    except RecursionError:
        raise UserError(f"{path} is not JSON that can be read: it is nested too deeply.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold a JSON object, not a {type(values).__name__}.")
    return values


def write_bytes(path: Path, content: bytes, *, check: Callable[[Path], None] = lambda path: None) -> None:
    """Replaces `path` at once or not at all; `check` gets the new file before that, and may raise."""
    temporary = temporary_name(path)
    try:
        remove_abandoned(path)
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        check(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {cause(error)}. What was saved before is intact.") from None
    finally:
        with suppress(OSError):  # it was renamed if all went well, or could not be made at all
            temporary.unlink()


def check_output(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Raises UserError if to write `path` would destroy one of `inputs`, or anything else that is not ours.

    An input that is a folder stands for all that is in it. Commands call this before they compute. A file that an
    earlier call has written may be replaced.
    """
    if not os.path.lexists(path):
        return
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder; name a file in it.")
    if any(is_part_of(path, other) for other in inputs):
        raise UserError(f"{path} is one of the inputs, which are never overwritten: choose another name.")
    if not is_ours(path):
        raise UserError(
            f"{path} was not written by emorl, so it is not overwritten: move it, or choose another name."
        )


def is_ours(path: Path) -> bool:
    """Whether a file has MARK near its beginning or end."""
    try:
        with open_regular(path) as file:
            content = file.read(EDGES)
            file.seek(max(0, os.fstat(file.fileno()).st_size - EDGES))
            return MARK.encode() in content or MARK.encode() in file.read(EDGES)
    except (OSError, UserError):
        return False


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two names are of one file, through links too."""
    with suppress(OSError):
        return os.path.samefile(one, other)
    return False


def is_part_of(path: Path, other: Path) -> bool:
    """Whether a file is `other`, or in it if that is a folder."""
    return is_same_file(path, other) or (other.is_dir() and real_path(path).is_relative_to(real_path(other)))


def real_path(path: str | Path) -> Path:
    """Returns where links lead; those that lead to themselves, which `Path.resolve` cannot follow, stay as they are."""
    return Path(os.path.realpath(path))


def temporary_name(path: Path) -> Path:
    """Returns a name beside `path` that no other process uses, on this machine or another that shares the folder."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def remove_abandoned(path: Path) -> None:
    """Deletes old temporary files of processes that were killed while they wrote `path`."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}(\.previous)?\.tmp")  # see temporary_name
    with suppress(OSError):  # a folder that cannot be listed may still be writable
        for name in os.listdir(path.parent):
            if ours.fullmatch(name):
                left = path.parent / name
                if left.stat().st_mtime < time.time() - ABANDONED:
                    left.unlink()


def append_line(path: Path, line: str) -> None:
    """Adds a line to a file, which is made if there is none. Raises UserError if it is a link, or no regular file."""
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    try:
        with os.fdopen(os.open(path, flags, 0o644), "a", encoding="utf-8") as file:
            check_regular(path, os.fstat(file.fileno()))
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"Cannot write {path}: {cause(error)}.") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes `value` as indented JSON, at once or not at all."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def make_directory(directory: Path) -> None:
    """Makes a folder and its parents if they are missing; raises UserError if that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {directory}: {cause(error)}.") from None


def cause(error: Exception) -> str:
    """Returns what went wrong, in the words of the operating system if it gave any."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
