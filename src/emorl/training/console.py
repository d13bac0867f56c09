"""What is said to people: on stderr, so that stdout is for results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from emorl.errors import one_line, printable

QUIET = 5.0  # seconds after which something is printed where there is no terminal to draw a bar on


def say(message: str) -> None:
    """Prints a line for people; what it quotes moves no cursor."""
    sys.stderr.write(f"{''.join(map(printable, message))}\n")
    sys.stderr.flush()


def duration(seconds: float) -> str:
    """Returns a time in words that are as exact as one wants to know it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, a line every few seconds elsewhere. Yields a function of (done, total)."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(title)
        return
    name = TextColumn("{task.description}", markup=False)  # names of runs may look like markup
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(one_line(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def lines(title: str) -> Callable[[int, int], None]:
    """A function of (done, total) that prints a line if the last one was some seconds ago."""
    started = last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= QUIET and done < total:
            last = now
            left = (now - started) / max(1, done) * (total - done)
            say(f"{title} {done}/{total}, {duration(left)} left")

    return progress
