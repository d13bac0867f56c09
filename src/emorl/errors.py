"""The one exception for mistakes a user can make, and what helps to raise it well."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What was asked for cannot be done. The message names the culprit, the rule and the way out.

    The command line prints it in one line, without a traceback.
    """


def check_numbers(group: str, config: object, *, positive: Iterable[str] = (), **least: int) -> None:
    """Raises UserError unless the fields of `config` reach their `least` values and the `positive` ones exceed 0."""
    for name, minimum in least.items():
        if getattr(config, name) < minimum:
            raise UserError(f"{group}.{name} must be at least {minimum}, not {getattr(config, name)}.")
    for name in positive:
        if not getattr(config, name) > 0:
            raise UserError(f"{group}.{name} must be more than 0, not {getattr(config, name)}.")


def nearest(name: str, options: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the closest of `options`, else the list of them."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from {', '.join(known) or 'nothing'}"
