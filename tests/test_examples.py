"""Examples run as they stand: the notebooks, and the tutorial that learns shapes from slots."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PAGE = (ROOT / "docs" / "tutorials" / "slots.md").read_text(encoding="utf-8")
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, "executed.ipynb")
"""


def run(code: str, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def read(path: Path) -> Any:
    """The cells of a notebook, which is JSON."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_both_notebooks_are_there() -> None:
    assert [path.name for path in NOTEBOOKS] == ["own_images.ipynb", "tour.ipynb"]


def shown(cells: Any) -> str:
    """Everything that the cells of a notebook print and show, pictures too."""
    return "\n".join(json.dumps(output) for cell in cells for output in cell.get("outputs", []))


WORDS = {
    "tour.ipynb": ["3 images, 4 slots", r"ARI 0\.9\d\d", "192 x 192 pixels", "'weights.safetensors'", "loss"],
    "own_images.ipynb": [
        "4 images, 6 slots",
        "box",
        "explained badly",
        "'model.safetensors'",
        "the same: True",
    ],
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    run(EXECUTE, tmp_path, str(path))
    text = shown(read(tmp_path / "executed.ipynb"))
    for words in WORDS[path.name]:
        assert re.search(words, text), words
    assert text.count("image/png") >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_results(path: Path) -> None:
    """Results would differ from machine to machine, and name its folders."""
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in read(path))


def test_shapes_are_learned_from_slots(tmp_path: Path) -> None:
    """The page's code prints about what the page says, and slots are far better than pixels of the same place."""
    line = r"slots (\d\.\d+), pixels under the mask (\d\.\d+), cut-outs by the true boxes (\d\.\d+)"
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = re.search(line, run("\n".join(blocks), tmp_path))
    said = re.search(line, PAGE)
    assert printed is not None
    assert said is not None
    now, then = ([float(number) for number in match.groups()] for match in (printed, said))
    assert all(abs(a - b) < 0.06 for a, b in zip(now, then, strict=True)), (now, then)
    assert now[0] > now[1] + 0.5


def test_the_python_of_the_reference_runs(tmp_path: Path) -> None:
    """In a folder with a photograph."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    picture = "from PIL import Image; Image.effect_noise((300, 200), 90).convert('RGB').save('photo.jpg')\n"
    run(picture + first + "\n".join(others), tmp_path)
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
    }
    assert (tmp_path / "parts.png").exists()
    assert (tmp_path / "runs" / "tiny" / "weights.safetensors").exists()
