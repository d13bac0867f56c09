"""Measures what denormal numbers cost: CPU time of a training pass with the released weights, flushed to zero or not.

python benchmarks/denormals.py
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from emorl import DataConfig, Scene, load, open_dataset
from emorl.files import write_json

RESULTS = Path(__file__).parent / "results" / "denormals.json"
PASSES, ROUNDS = 8, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "model", nargs="?", default="efficient-morl/tetrominoes", help="released weights, or a run"
    )
    model = load(parser.parse_args().model)
    torch.set_num_threads(1)  # the setting belongs to a thread
    scenes = open_dataset(DataConfig("tetrominoes"), "train")
    x = Scene.stack([scenes[index] for index in range(16)]).image

    def seconds(flush: bool) -> float:
        torch.set_flush_denormal(flush)
        started = time.process_time()
        for _ in range(PASSES):
            model.zero_grad()
            model(x).loss.backward()
        return (time.process_time() - started) / PASSES

    seconds(True)  # warm up
    rounds = [
        (seconds(False), seconds(True)) for _ in range(ROUNDS)
    ]  # alternating, because machines are noisy
    kept, flushed = (min(column) for column in zip(*rounds, strict=True))
    results = {"command": "python benchmarks/denormals.py", "seconds_kept": kept, "seconds_flushed": flushed}
    write_json(RESULTS, results | {"ratio": kept / flushed})
    print(json.dumps(results | {"ratio": kept / flushed}, indent=2))


if __name__ == "__main__":
    main()
