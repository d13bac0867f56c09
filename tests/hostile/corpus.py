"""Hostile variants of every kind of file we open, each made anew from a seed.

A `Format` says how a good sample is made and how it is read; what is done to it is the same for all of them (DAMAGES
for the bytes of a file, REPLACEMENTS for the file itself), besides what a format has of its own (`own`). Those of data
are in formats.py, those of runs in run_formats.py, commands on them in command_formats.py. `python corpus.py NAME FIRST
COUNT` runs variants FIRST, FIRST + 1, ... of one of them, and prints what breaks the rule.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import numpy as np

from emorl.errors import UserError

MOST_SECONDS = 20  # of computing
PATIENCE = 6  # times as long by the clock: a busy machine is slow, but what waits for ever is found
MOST_MEMORY = 10**9  # bytes beyond what there was; a good sample needs next to nothing

Rng = np.random.Generator
Make = Callable[[Path], Path]  # writes into an empty folder; returns what is to be read


@dataclass(frozen=True)
class Format:
    """A kind of file, or of folder: `read` opens it, reads all of it and asserts that what it found makes sense."""

    make: Make
    read: Callable[[Path], object]
    own: Mapping[str, Make] = field(default_factory=dict)  # variants that only this format has, by name


def flip_bits(content: bytearray, rng: Rng) -> None:
    for _ in range(int(rng.integers(1, 9))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def cut(content: bytearray, rng: Rng) -> None:
    del content[int(rng.integers(len(content))) :]


def cut_the_end(content: bytearray, rng: Rng) -> None:
    del content[-int(rng.integers(1, 20)) :]


def insert(content: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(content)))
    content[at:at] = rng.bytes(int(rng.integers(1, 40)))


def remove(content: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(content)))
    del content[at : at + int(rng.integers(1, 40))]


def overwrite(content: bytearray, rng: Rng) -> None:
    at, count = int(rng.integers(len(content))), int(rng.integers(1, 40))
    content[at : at + count] = rng.bytes(count)


def enlarge(content: bytearray, rng: Rng) -> None:
    """Writes a number that is far too large where a length may be: mostly near the beginning."""
    width = int(rng.choice([2, 4, 8]))
    number = 2 ** (8 * width - int(rng.integers(3))) - 1
    at = int(len(content) * rng.random() ** 3)
    content[at : at + width] = number.to_bytes(width, "little" if rng.random() < 0.5 else "big")


def clear(content: bytearray, rng: Rng) -> None:
    at, count = int(rng.integers(len(content))), int(rng.integers(1, 200))
    content[at : at + count] = bytes(len(content[at : at + count]))


def repeat(content: bytearray, rng: Rng) -> None:
    at = int(rng.integers(len(content)))
    content[at:at] = content[at : at + int(rng.integers(1, 200))] * int(rng.integers(1, 20))


def change_digits(content: bytearray, rng: Rng) -> None:
    """In text, numbers become other numbers; in bytes it is one more way to overwrite them."""
    digits = [at for at, value in enumerate(content) if 48 <= value < 58] or [0]
    at = int(rng.choice(digits))
    content[at : at + 1] = rng.choice(
        [b"-1", b"0", b"99999999999999999999", b"1e999", b"null", b'"x"', b"[]"]
    )


DAMAGES: dict[str, Callable[[bytearray, Rng], None]] = {
    "bits flipped": flip_bits,
    "cut": cut,
    "end cut": cut_the_end,
    "bytes inserted": insert,
    "bytes removed": remove,
    "overwritten": overwrite,
    "huge number": enlarge,
    "zeros": clear,
    "repeated": repeat,
    "other digits": change_digits,
}


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**41)  # takes no space


REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "nothing": lambda path: None,
    "empty": Path.touch,
    "huge": sparse,
    "dangling link": lambda path: path.symlink_to(path.with_name("nowhere")),
    "link to itself": lambda path: path.symlink_to(path),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "text": lambda path: path.write_text("hello\n" * 50) and None,
    "page": lambda path: path.write_text("<html><body>404</body></html>") and None,
    "postscript": lambda path: path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n") and None,
    "pickle": lambda path: path.write_bytes(b"\x80\x04cposix\nsystem\n\x8c\x09touch own\x85R.") and None,
}  # fmt: skip


def variant(form: Format, folder: Path, number: int) -> tuple[str, Path]:
    """Makes variant `number` of a format in an empty folder. Returns what was done, and what is to be read.

    The first ones are the format's own and the replacements of each of its files; the others are damaged at random.
    """
    if number < len(form.own):
        name, make = list(form.own.items())[number]
        return name, make(folder)
    path = form.make(folder)
    files = sorted(file for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    number -= len(form.own)
    if number < len(files) * len(REPLACEMENTS):
        file, kind = files[number // len(REPLACEMENTS)], list(REPLACEMENTS)[number % len(REPLACEMENTS)]
        file.unlink()
        REPLACEMENTS[kind](file)
        return f"{file.name}: {kind}", path
    rng = np.random.default_rng(number)
    file, kind = files[int(rng.integers(len(files)))], str(rng.choice(list(DAMAGES)))
    content = bytearray(file.read_bytes())
    DAMAGES[kind](content, rng)
    file.write_bytes(content)
    return f"{file.name}: {kind}", path


def problem_of(form: Format, number: int) -> str | None:
    """Reads one variant. Returns how it breaks the rule: right results or a UserError of one line, soon and cheaply."""
    with TemporaryDirectory() as folder:
        what, path = variant(form, Path(folder), number)
        before, started = memory_now(), time.process_time()
        found = ""
        try:
            with time_limit():
                form.read(path)
        except UserError as error:
            if not str(error) or "\n" in str(error):
                found = f"says {str(error)!r}"
        except Exception as error:
            found = f"raises {type(error).__name__}: {error}"
        if time.process_time() - started > MOST_SECONDS:
            found += " and takes too long"
        if memory("VmHWM") - before > MOST_MEMORY:
            found += f" and takes {(memory('VmHWM') - before) / 1e9:.1f} GB"
        if list(Path.cwd().glob("own")):
            found += " and runs a pickle"
        return f"variant {number} ({what}) {found}" if found else None


def problems_of(form: Format, numbers: Iterable[int]) -> list[str]:
    """How some of the variants break the rule, in the order of their numbers; none, if all is well."""
    found = (problem_of(form, int(number)) for number in sorted(numbers))
    return [problem for problem in found if problem is not None]


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not finished after {PATIENCE * MOST_SECONDS} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE * MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def memory_now() -> int:
    """The memory of this process, from which on its peak is counted."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(what: str) -> int:
    """Bytes that the kernel says this process has (VmRSS) or had at most (VmHWM); 0 where it does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.split(f"{what}:")[1].split()[0])


def problems_apart(name: str, count: int) -> str:
    """Reads variants in a process of their own, so that a signal is a failure of one test and not of all.

    Returns what breaks the rule, or nothing.
    """
    folder = Path(__file__).parent
    paths = [str(folder), str(folder.parent), *sys.path]
    result = subprocess.run(
        [sys.executable, str(folder / "corpus.py"), name, "0", str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"exit {result.returncode}: {result.stdout}{result.stderr}" if result.returncode else ""


def main(name: str, first: int, count: int) -> None:
    from command_formats import COMMAND_FORMATS
    from formats import FORMATS
    from run_formats import RUN_FORMATS

    form = (FORMATS | RUN_FORMATS | COMMAND_FORMATS)[name]
    found = problems_of(form, range(first, first + count))
    print("\n".join(found))
    sys.exit(any(found))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
