"""Where numbers come from: the version and commit of this package, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from emorl.runs.allocator import allocator_settings
from emorl.version import __version__

INSTALLED = "installed wheel"  # stands for the commit where the package is not in a git checkout of its own


def stamp() -> dict[str, Any]:
    """Returns what a result should carry: package version, commit, and everything in `environment()`."""
    return {"version": __version__, "commit": commit(), **environment()}


def environment() -> dict[str, Any]:
    """Returns what numbers may depend on besides the settings: libraries, processor, threads, load, allocator."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": cpu_model(),
        "threads": torch.get_num_threads(),
        "load": load_average(),
        "allocator": allocator_settings(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


@cache
def commit() -> str:
    """Returns the commit of the checkout this package lies in, with "+changes" if it was edited since.

    Only a checkout that tracks this very file counts: a virtual environment may stand inside someone else's.
    """
    here = Path(__file__).resolve()
    try:
        git(here.parent, "ls-files", "--error-unmatch", here.name)
        found = git(here.parent, "rev-parse", "HEAD")
        changes = git(
            here.parent, "status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1])
        )
    except (OSError, subprocess.SubprocessError):
        return INSTALLED
    return f"{found}+changes" if changes else found


def git(directory: Path, *arguments: str) -> str:
    """Returns what git prints; raises where there is no git or it fails. It writes nothing and asks nothing."""
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return result.stdout.strip()


def cpu_model() -> str:
    """Returns the name of the processor, "unknown" where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def load_average() -> float | None:
    """Returns the number of processes that wanted to run in the last minute, where the system counts them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
