"""Measures how many scenes per second of CPU time `store` writes, and how fast they are read back.

python benchmarks/scenes.py
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from emorl.data import DATASETS
from emorl.data.stored import StoredScenes, store
from emorl.files import write_json

RESULTS = Path(__file__).parent / "results" / "scenes.json"
COUNTS = {"tetrominoes": 10_000, "multi-dsprites": 3_000, "clevr": 60}  # scenes to make, by family


def main() -> None:
    results: dict[str, Any] = {"command": "python benchmarks/scenes.py"}
    for name, dataset in DATASETS.items():
        count = next(count for family, count in COUNTS.items() if name.startswith(family))
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            store(dataset(length=count), Path(folder) / "scenes")
            stored = time.process_time() - started
            scenes = StoredScenes(Path(folder) / "scenes")
            started = time.process_time()
            for index in range(count):
                scenes[index]
            read = time.process_time() - started
        results[name] = {
            "scenes": count,
            "stored_per_second_and_core": round(count / stored, 1),
            "read_per_second_and_core": round(count / read),
        }
    write_json(RESULTS, results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
