"""Measures how many scenes per second of CPU time `store` writes, and how fast they are read back.

python benchmarks/scenes.py
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from emorl.data import DATASETS
from emorl.data.stored import StoredScenes, store
from emorl.files import write_json

RESULTS = Path(__file__).parent / "results" / "scenes.json"
COUNT = 10_000


def main() -> None:
    results = {"command": "python benchmarks/scenes.py", "scenes": COUNT}
    for name, dataset in DATASETS.items():
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            store(dataset(length=COUNT), Path(folder) / "scenes")
            stored = time.process_time() - started
            scenes = StoredScenes(Path(folder) / "scenes")
            started = time.process_time()
            for index in range(COUNT):
                scenes[index]
            read = time.process_time() - started
        results[name] = {
            "stored_per_second_and_core": round(COUNT / stored),
            "read_per_second_and_core": round(COUNT / read),
        }
    write_json(RESULTS, results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
