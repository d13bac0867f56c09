"""Takes the results of `emorl reproduce` into the repository and brings docs/reproduction.md up to date with them.

    emorl reproduce all --out runs/reproduce --jobs 2
    python benchmarks/reproduction.py runs/reproduce/cpu

Without a folder: only the document, from the committed results.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from emorl.config import read_json
from emorl.files import make_directory
from emorl.reproduce.experiments import EXPERIMENTS
from readme import ROOT, rewrite

RESULTS = ROOT / "benchmarks" / "results" / "reproduce"
PICTURES = ROOT / "docs" / "images" / "reproduce"
DOCUMENT = ROOT / "docs" / "reproduction.md"


def section(results: dict[str, Any]) -> str:
    """One experiment as Markdown."""
    name = results["name"]
    lines = [f"`{results['command']}`: {results['protocol']}.", "", f"Paper: {results['paper']}", ""]
    lines += [results["table"], ""]
    if (PICTURES / f"{name}.png").exists():
        lines += [f"![{results['title']}](images/reproduce/{name}.png)", ""]
    return "\n".join(lines).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="results of emorl reproduce, at one scale")
    folder = parser.parse_args().folder
    for name in EXPERIMENTS:
        if folder is not None and (folder / f"{name}.json").exists():
            make_directory(RESULTS)
            make_directory(PICTURES)
            shutil.copy(folder / f"{name}.json", RESULTS)
            if (folder / f"{name}.png").exists():
                shutil.copy(folder / f"{name}.png", PICTURES)
        if (RESULTS / f"{name}.json").exists():
            rewrite(DOCUMENT, name, section(read_json(RESULTS / f"{name}.json")))


if __name__ == "__main__":
    main()
