"""Compares one process of two threads with two processes of one thread: seconds per training step, in turns.

Also says what share of a step is waiting for data.

python benchmarks/processes.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from emorl.files import write_json
from emorl.runs.directory import read_metrics

RESULTS = Path(__file__).parent / "results" / "processes.json"
WAYS = {"one process, two threads": (1, 2), "two processes, one thread each": (2, 1)}


def trained(preset: str, processes: int, threads: int, *, steps: int, warm_up: int) -> tuple[float, float]:
    """Trains for a moment. Returns the median wall time of a step and the share of waiting, after `warm_up` steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "emorl", "train", preset, "--out", f"{folder}/run"]
        command += ["--train.accelerator", "cpu", "--train.devices", str(processes)]
        command += ["--train.steps", str(steps), "--train.log-every", "1", "--train.evaluate-images", "1"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        records = read_metrics(Path(folder) / "run")[warm_up - 1 :]
    steps_taken = [after["seconds"] - before["seconds"] for before, after in pairwise(records)]
    waited, passed = (records[-1][name] - records[0][name] for name in ("waiting_seconds", "seconds"))
    return statistics.median(steps_taken), waited / passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", nargs="?", default="efficient-morl/tetrominoes-fast")
    parser.add_argument("--steps", type=int, default=60, help="of each training")
    parser.add_argument("--warm-up", type=int, default=10, help="steps that do not count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    waiting: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(given.rounds):  # alternating, because machines are noisy
        for way, (processes, threads) in WAYS.items():
            seconds, share = trained(
                given.preset, processes, threads, steps=given.steps, warm_up=given.warm_up
            )
            found[way].append(seconds)
            waiting[way].append(share)
    first, second = (statistics.median(medians) for medians in found.values())
    results = {
        "command": f"python benchmarks/processes.py {given.preset} --steps {given.steps} --rounds {given.rounds}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],  # of a machine that does nothing else: about two
        "median_seconds_per_step": found,
        "speed_up_of_two_processes": first / second,
        "share_of_time_waiting_for_data": waiting,
    }
    write_json(given.results, results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
