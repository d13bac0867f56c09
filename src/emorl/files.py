"""Writing files so that a crash leaves the old one or the new one, never half of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from emorl.errors import UserError


def write_bytes(path: Path, content: bytes, *, check: Callable[[Path], None] = lambda path: None) -> None:
    """Writes at once or not at all; `check` looks at the new file before it takes its place."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        check(temporary)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"Cannot write {path}: {error.strerror}. What was saved before is intact.") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {directory}: {error.strerror}.") from None
