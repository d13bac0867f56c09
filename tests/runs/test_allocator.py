"""Freed memory stays with the process, unless someone has tuned the allocator by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Page faults of the second of two blocks of 64 MiB, each taken and freed, and what a result would record.
PROGRAM = """
import ctypes, json, resource, sys
from emorl.runs.allocator import allocator_settings, keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else False
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = c.malloc(2**26)
    ctypes.memset(block, 1, 2**26)
    c.free(block)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(json.dumps([kept, faults, allocator_settings()]))
"""


def run(word: str, **variables: str) -> tuple[bool, int, dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word],
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | variables,
        capture_output=True,
        check=True,
    )
    kept, faults, settings = json.loads(done.stdout)
    return kept, faults, settings


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_kept() -> None:
    kept, faults, settings = run("keep")
    assert kept
    assert settings["freed memory"] == "kept"
    _, usual, without = run("leave")
    assert "freed memory" not in without
    assert faults < 100
    assert usual > 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_what_someone_has_tuned_is_left_alone() -> None:
    kept, faults, settings = run("keep", MALLOC_MMAP_THRESHOLD_="1048576")
    assert not kept
    assert faults > 1000
    assert settings["MALLOC_MMAP_THRESHOLD_"] == "1048576"
    assert "freed memory" not in settings
