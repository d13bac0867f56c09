"""keep_freed_memory(): memory that a pass has freed stays with the process, for the next pass.

By default glibc gives large blocks back to the system as soon as they are free (those above 32 MiB always), and each
pass then takes all of its memory anew, page by page: hundreds of thousands of page faults, which can take longer than
the arithmetic. What a fault costs depends on the machine and its neighbours: in a virtual machine, whose free memory
goes back to its host, it was seen to change by a factor of three within a minute.
"""

from __future__ import annotations

import ctypes
import os
import sys

# Numbers of mallopt(3), from <malloc.h>.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
NEVER, LARGEST = -1, 2**31 - 1  # -1 becomes the largest size there is; sizes are given as int

_is_kept = False


def keep_freed_memory() -> bool:
    """Asks glibc to keep freed memory, for the rest of the process. Returns whether it does.

    Nothing is done where there is no glibc, or where MALLOC_* variables say that someone has tuned it by hand.
    """
    global _is_kept
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None and not _is_kept:
        _is_kept = bool(mallopt(TRIM_THRESHOLD, NEVER)) and bool(mallopt(MMAP_THRESHOLD, LARGEST))
    return _is_kept


def is_memory_kept() -> bool:
    """Whether this process was asked to keep freed memory, and does."""
    return _is_kept


def allocator_settings() -> dict[str, str]:
    """What tunes the allocator: environment variables, and whether freed memory is kept."""
    tuned = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("MALLOC_") or name in ("LD_PRELOAD", "GLIBC_TUNABLES", "THP_MEM_ALLOC_ENABLE")
    }
    return tuned | ({"freed memory": "kept"} if _is_kept else {})
