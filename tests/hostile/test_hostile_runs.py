"""Whatever a file of a run holds: right results or one line, never another exception, signal, gigabyte or wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import REPLACEMENTS, problems_apart, problems_of
from run_formats import RUN_FORMATS

DAMAGED = 6  # variants of each format that are damaged at random, in the default suite
REPLACED = 3  # and those that are something else


@pytest.mark.parametrize("name", RUN_FORMATS)
def test_a_good_sample_is_read(name: str, tmp_path: Path) -> None:
    RUN_FORMATS[name].read(RUN_FORMATS[name].make(tmp_path))


@pytest.mark.parametrize("name", RUN_FORMATS)
def test_a_sample_of_hostile_files(name: str) -> None:
    form = RUN_FORMATS[name]
    rng = np.random.default_rng(list(name.encode()))
    own = len(form.own)
    numbers = {*range(own), *rng.choice(len(REPLACEMENTS), REPLACED, replace=False) + own}
    numbers |= set(rng.integers(own + len(REPLACEMENTS), 10**6, DAMAGED))
    assert not problems_of(form, numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN_FORMATS)
def test_thousands_of_hostile_files(name: str) -> None:
    assert not problems_apart(name, 1000)
