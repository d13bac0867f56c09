"""The one exception for mistakes a user can make, and what helps to raise it well."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

LARGEST_SEED = 2**64 - 1  # what PyTorch's generators take
LONGEST = 4000  # letters of a message; what it quotes may have millions


class UserError(Exception):
    """What was asked for cannot be done. The message names the culprit, the rule and the way out.

    The command line prints it in one line, without a traceback.
    """

    def message(self) -> str:
        """What it was made with, as text; it may have several lines."""
        return super().__str__()

    def __str__(self) -> str:
        return one_line(self.message())


class Unreadable(UserError):
    """A file that cannot be read: made from its path and the reason, which stays available."""

    def message(self) -> str:
        """Which file, and why."""
        return f"Cannot read {self.args[0]}: {self.reason}."

    @property
    def reason(self) -> str:
        """Why it cannot be read."""
        return str(self.args[1])


def missing(package: str, extra: str, what: str) -> UserError:
    """The error for `what` needs a package that comes with an extra of this one and is not installed."""
    return UserError(f"{what} needs {package}, which is not installed: pip install 'emorl[{extra}]'")


def no_device(device: object, error: Exception) -> UserError:
    """The error for a device to which something could not be moved, because of `error`."""
    return UserError(f"There is no device {reprlib.repr(device)} here ({first_line(error)}); use 'cpu'.")


def first_line(error: BaseException) -> str:
    """Returns what an exception says in one line, or else its type."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def one_line(text: str) -> str:
    """Returns one line to print, whatever the text quotes: names of files and messages of libraries may be anything."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return text if text.isprintable() else "".join(map(printable, " ".join(text.split())))


def printable(letter: str) -> str:
    """Keeps letters, and names that are not UTF-8; escapes what would move a terminal's cursor."""
    return letter if letter.isprintable() or "\udc80" <= letter <= "\udcff" else ascii(letter)[1:-1]


def first_few(texts: Sequence[str], most: int = 3) -> str:
    """Returns the first texts, and how many there are besides, for a message."""
    others = f"; and {len(texts) - most} others" if len(texts) > most else ""
    return "; ".join(texts[:most]) + others


def check_numbers(group: str, config: object, *, positive: Iterable[str] = (), **least: int) -> None:
    """Raises UserError unless the fields of `config` reach their `least` values and the `positive` ones exceed 0.

    Infinity and NaN are never right.
    """
    for name in (*least, *positive):
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise UserError(f"{group}.{name} must be a number, not {reprlib.repr(value)}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{group}.{name} must be a finite number, not {value}.")
    for name, minimum in least.items():
        if getattr(config, name) < minimum:
            raise UserError(f"{group}.{name} must be at least {minimum}, not {getattr(config, name)}.")
    for name in positive:
        if not getattr(config, name) > 0:
            raise UserError(f"{group}.{name} must be more than 0, not {getattr(config, name)}.")


def check_range(name: str, value: int, least: int, most: int) -> int:
    """Returns `value`, or raises UserError with the `name` of the setting that holds it."""
    if not is_whole(value):
        raise UserError(f"{name} must be a whole number, not {reprlib.repr(value)}.")
    if value < least:
        raise UserError(f"{name} must be at least {least}, not {value}.")
    if value > most:
        raise UserError(f"{name} must be at most {most}, not {value}.")
    return value


def check_seed(name: str, value: int) -> int:
    """Returns a seed that every generator takes."""
    return check_range(name, value, 0, LARGEST_SEED)


def is_whole(value: object) -> bool:
    """Whether a value is an integer, of Python or of a library; truth values are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def nearest(name: str, options: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the closest of `options`, else the list of them."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from {', '.join(known) or 'nothing'}"
