"""A run directory: the name of every file in it, and reading what training has logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = "config.json"  # every setting of the run; read_config()
HISTORY = (
    "history.jsonl"  # a line for each start and resume: when, by which version, on what, and what changed
)
ENVIRONMENT = "environment.json"  # package and machine of the last start
METRICS_FILE = "metrics.jsonl"  # what training measured, a line every few steps
CHECKPOINT = "checkpoint.pt"  # everything --resume needs
PREVIOUS = "checkpoint.previous.pt"  # the one before, in case the last one is damaged
WEIGHTS = "weights.safetensors"  # the trained model
SCORES = "scores.json"  # of `emorl evaluate`
LOCK = ".lock"  # holds the id of the process that trains; gone after an orderly end


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl; one torn by a crash is left out."""
    path = directory / METRICS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
