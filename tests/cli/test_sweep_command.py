"""emorl sweep"""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Run


def test_sweep_command(emorl: Run, tmp_path: Path) -> None:
    options = ("--images", 3, "--out", "sweep.json", "--picture", "sweep.png")
    result = emorl("sweep", "slots", "efficient-morl/tetrominoes", "--values", 3, 5, *options)
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["slots", "3", "5"]
    saved = json.loads((tmp_path / "sweep.json").read_text())
    assert [row["value"] for row in saved["rows"]] == [3, 5]
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    wrong = emorl("sweep", "objects", "efficient-morl/tetrominoes", "--data", "multi-dsprites", "--images", 2)
    assert wrong.returncode == 2
    assert "35 pixels" in wrong.stderr
