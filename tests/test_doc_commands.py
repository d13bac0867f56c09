"""The commands of every page run in the order in which they stand there; only what takes long is made shorter."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest

from conftest import ROOT
from doc_text import DOCS, blocks, commands, text_of
from emorl.cli import main
from test_docs import draw_photos
from tiny import TINY

SHORTER = {
    "train": "--train.steps 2 --train.evaluate-images 2",
    "report": "--quick --images 2",
    "figure": "--scenes 2",
    "sweep": "--images 2",
    "bench": "--batch-sizes 1 --steps 0 --repeats 1",
    "data store": "--count 8",
    "data preview": "--count 2",
    "evaluate": "--images 4",
    "evaluate --dci": "--images 40",  # a factor must have several values
}
TRAINED_BEFORE = {"export.md": "runs/mine", "faq.md": "runs/a"}  # what a page takes for granted
RUN_BY = {  # commands that other tests run, by how they begin
    "emorl explore": "tests/explorer/test_explorer_page.py",
    "emorl bench --quick": "tests/experiments/test_figure_10.py",
    "emorl bench efficient-morl/clevr6-paper": "tests/experiments/test_figure_10.py",
    "make explore": "tests/explorer/test_explorer_page.py",
    "make demo": "tests/test_docs.py",
    "make learn": "tests/test_docs.py",
    "make install": "tests/test_docs.py",  # as part of make demo
    "source .venv/bin/activate": "tests/test_docs.py",
    "pre-commit install": "tests/test_project.py",
    "python -m pip wheel": "tests/test_wheel.py",
    "python -m venv": "tests/test_wheel.py",
    "emorl-env/bin/": "tests/test_wheel.py",
    "/tmp/try/bin/": "tests/test_wheel.py",
    "cd /tmp && try/bin/emorl": "tests/test_wheel.py",
}
OUTPUT = "emorl: "  # a line of a block that shows what a command says


def shortened(line: str) -> list[str]:
    """The arguments of a command of `emorl`, with those that make it short."""
    words = shlex.split(line)[1:]
    name = " ".join(words[:2]) if words[0] == "data" else words[0]
    name += " --dci" if name == "evaluate" and "--dci" in words else ""
    has_scenes = words[:2] != ["figure", "curves"]
    return [*words, *(SHORTER.get(name, "").split() if has_scenes and "--help" not in words else [])]


def results_of(line: str) -> list[Path]:
    words = shlex.split(line)
    return [Path(after) for word, after in itertools.pairwise(words) if word in ("--out", "--picture")]


def exit_code(words: list[str]) -> int | str | None:
    """Runs a command; some, such as --help, leave by themselves."""
    try:
        main(words)
    except SystemExit as left:
        return left.code or 0
    return 0


def has_commands(path: Path) -> bool:
    return any(line.startswith("emorl ") for line in commands(text_of(path)))


PAGES = [
    # tests/export/ exports small models; these are whole ones
    pytest.param(path, marks=pytest.mark.slow if path.name == "export.md" else (), id=path.name)
    for path in DOCS
    if has_commands(path)
]


@pytest.mark.parametrize("path", PAGES)
def test_the_commands_of_a_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw_photos(tmp_path / "photos")
    if path.name in TRAINED_BEFORE:
        main(shortened(f"emorl train {TINY} --out {TRAINED_BEFORE[path.name]}"))
    for line in commands(text_of(path)):
        if line.startswith((OUTPUT, *RUN_BY)):
            continue
        assert line.startswith("emorl "), line
        assert exit_code(shortened(line)) == 0, line
        assert all(made.exists() for made in results_of(line)), line
    if path.name == "export.md":  # its Python opens what its commands have written
        (script,) = blocks(text_of(path), "python")
        exec(compile(script, path.name, "exec"), {"__name__": "__main__"})


def test_what_is_run_elsewhere_is_there() -> None:
    written = {line for path in DOCS for line in commands(text_of(path))}
    for start, test in RUN_BY.items():
        assert (ROOT / test).exists()
        assert any(line.startswith(start) for line in written), f"no page has {start!r} any more"
