"""Scenes: how many scenes per second of processor time are stored, and how fast they are read back."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from emorl.data import DATASETS
from emorl.data.stored import StoredScenes
from emorl.data.storing import store
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import Cells, columns, count

CHUNKS = 4  # scenes to store, in multiples of a data set's `chunk`; that takes a few seconds


def measure(job: Job) -> Iterator[Row]:
    """Yields, for each data set, scenes per second of processor time, stored and read back."""
    for name, make in DATASETS.items():
        scenes = make(length=1)
        number = 4 if job.scale == "tiny" else CHUNKS * scenes.chunk
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            store(make(length=number), Path(folder) / "scenes")
            stored = time.process_time() - started
            read_back = StoredScenes(Path(folder) / "scenes")
            started = time.process_time()
            for index in range(number):
                read_back[index]
            read = time.process_time() - started
        values = {"stored_per_second": round(number / stored, 1), "read_per_second": round(number / read)}
        yield Row(name, {"scenes": number, **values})


def sections(result: Result) -> dict[str, str]:
    """Returns the table for the page about data."""
    cells: Cells = {
        "data set": lambda row: row.label,
        "scenes": lambda row: count(row.values["scenes"]),
        "stored per second and core": lambda row: rate_of(row.values["stored_per_second"]),
        "read per second and core": lambda row: count(row.values["read_per_second"]),
    }
    return {"docs/data.md#scenes": columns(result.rows, cells)}


def rate_of(rate: float) -> str:
    """Scenes per second as text."""
    return f"{rate:.1f}" if rate < 100 else count(round(rate))


EXPERIMENT = Experiment("How fast scenes are made", measure, sections=sections)
