"""docs/extending.md: the code on the page runs as it stands, and what it adds is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from emorl.files import read_json

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
CHECKS = """
from emorl.cli import main
from emorl.experiments.results import Result

(glance,) = [one for one in MODELS_BEFORE ^ set(emorl.MODELS)]
assert glance == "glance"
assert emorl.load("runs/glance").config == GlanceConfig()
assert emorl.DataConfig("squares").train_size == 500
main(["evaluate", "runs/glance", "--all"])  # the metric is in the table
main(["reproduce"])  # the experiment is in the list
"""


def test_the_page_has_one_short_block_for_each_thing() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    assert titles == ["A model", "A data set", "A metric", "An experiment"]
    assert max(len(block.splitlines()) for block in BLOCKS) < 40


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    script = "import emorl; MODELS_BEFORE = set(emorl.MODELS)\n" + "\n".join(BLOCKS) + CHECKS
    (folder / "page.py").write_text(script, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "page.py"]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, folder


def test_what_the_page_adds_is_found(output: tuple[str, Path]) -> None:
    text, folder = output
    assert re.search(r"^Worst pixel .*its squared error$", text, flags=re.MULTILINE)
    assert re.search(r"^slots +How many slots", text, flags=re.MULTILINE)
    assert "| K=3 | 1 | 12 | " in text
    rows = read_json(folder / "runs" / "reproduce" / "tiny" / "slots.json")["rows"]
    assert [row["label"] for row in rows] == ["K=3", "K=6"]
    assert all(0 < row["values"]["worst_pixel"] <= 1 for row in rows)
