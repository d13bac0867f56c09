"""The one exception for mistakes a user can make, and the hint that goes with a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What was asked for cannot be done. The message names the culprit, the rule and the way out.

    The command line prints it in one line, without a traceback.
    """


def nearest(name: str, options: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" for the closest of `options`, else the list of them."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from {', '.join(known) or 'nothing'}"
