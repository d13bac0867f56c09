"""Progress as a person sees it: on a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path


def test_training_shows_a_bar_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "emorl", "train", "efficient-morl/tetrominoes-tiny", "--out", "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=theirs, stdout=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux reports the end of a terminal this way
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait(timeout=120) == 0
    text = seen.decode(errors="replace")
    assert "20/20" in text
    for word in ("ARI", "Slots used", "KL by layer", "refined by", "Weight of the NLL"):
        assert word in text
    assert "images/s" in text
    assert "0:00:" in text  # time left
