"""Functions of the source that pages show: they are taken from the code, so that a page never shows another one."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from emorl.models.efficient_morl import EfficientMORL

# "page.md#part" -> what stands there.
SHOWN: Mapping[str, Callable[..., Any]] = {
    "docs/algorithm.md#bottom-up": EfficientMORL.bottom_up,
    "docs/algorithm.md#compute": EfficientMORL.compute,
}


def excerpts() -> dict[str, str]:
    """Every function that a page shows, as Markdown."""
    return {
        place: f"```python\n{textwrap.dedent(inspect.getsource(shown)).rstrip()}\n```"
        for place, shown in SHOWN.items()
    }
