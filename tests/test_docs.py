"""The README's commands and Python run, links lead somewhere, and pages about the code name what exists."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import ROOT
from doc_text import DOCS, anchors, blocks, commands, links, text_of
from emorl.cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / ".github").rglob("*.md")), *DOCS]
PHOTOS = 6
SHORT = ["--train.steps", "2", "--train.evaluate-images", "2"]


def test_every_readme_command_runs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, but for shorter training; `make test` is what runs this test."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    monkeypatch.chdir(tmp_path)
    draw_photos(tmp_path / "photos")
    ran = []
    for command in commands(README):
        words = command.split()
        if command == "make demo":
            run = ["make", "demo", f"DEMO_DIR={tmp_path / 'demo'}"]
            result = subprocess.run(
                run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert result.returncode == 0, result.stderr
            assert (tmp_path / "demo" / "scenes.png").exists()
            assert "ARI" in result.stdout
            assert "emorl train efficient-morl/tetrominoes" in result.stdout
        elif words[0] == "emorl":
            main([*words[1:], *(SHORT if words[1] == "train" else [])])  # leaves with SystemExit if it fails
        else:
            assert command in ("make test", "make explore")  # tests/explorer/ runs the explorer
        ran.append(command)
    assert len(ran) >= 6
    for folder in ("apart", "apart-again"):
        assert len(list(Path(folder).rglob("objects.json"))) == PHOTOS
    (block,) = blocks(README, "python")
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})


def draw_photos(folder: Path) -> None:
    """A folder of small pictures: squares of one colour on another."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(PHOTOS):
        pixels = np.full((70, 90, 3), rng.integers(256, size=3), dtype=np.uint8)
        top, left = rng.integers(45, size=2)
        pixels[top : top + 20, left : left + 20] = rng.integers(256, size=3)
        Image.fromarray(pixels).save(folder / f"{index}.png")


@pytest.mark.slow
def test_make_learn(tmp_path: Path) -> None:
    run = ["make", "learn", f"LEARN_DIR={tmp_path / 'learn'}", "LEARN_STEPS=2"]
    result = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "learn" / "scenes.png").exists()
    assert "ARI" in result.stdout


def test_make_learn_deletes_nothing(tmp_path: Path) -> None:
    """The folder may hold a run already, which then goes on or is scored again."""
    run = ["make", "-n", "learn", f"LEARN_DIR={tmp_path}"]
    lines = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    naming = [line for line in lines if str(tmp_path) in line]
    assert any("emorl train " in line and " --resume" in line for line in naming)
    assert not any(re.search(r"\brm\b|--force", line) for line in naming)


def test_make_explore_starts_the_explorer() -> None:
    result = subprocess.run(["make", "-n", "explore"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert any(line.endswith("emorl explore --open") for line in result.stdout.splitlines())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """In the repository; tests/test_site.py looks at those of the site."""
    for link in links(path.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(text_of(target)), link


def test_the_algorithm_page_names_existing_code() -> None:
    import emorl.models.efficient_morl as module
    from emorl import geco, nn, probability, types
    from emorl.nn import attention, decoder, encoder, gradient, position, recurrent

    sources = [
        module,
        geco,
        nn,
        probability,
        types,
        attention,
        decoder,
        encoder,
        gradient,
        position,
        recurrent,
    ]
    text = (ROOT / "docs" / "algorithm.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([A-Z]\w+(?:\.\w+)*|[a-z]+(?:_[a-z]+)+)`", text))
    assert len(names) > 15
    for name in names - {"torch.autograd.grad", "lam_i", "prior_draw"}:
        first, *rest = name.split(".")
        found = [getattr(source, first) for source in sources if hasattr(source, first)]
        assert found, name
        for part in rest:
            annotations = getattr(found[0], "__annotations__", {})
            assert hasattr(found[0], part) or part in annotations, name


def test_every_difference_in_the_source_is_explained() -> None:
    """Numbered differences between paper, authors' code and this package."""
    (page,) = [
        path for name in ("differences", "deviations") if (path := ROOT / "docs" / f"{name}.md").exists()
    ]
    explained = set(re.findall(r"^\| (\d+) \|", page.read_text("utf-8"), flags=re.MULTILINE))
    assert len(explained) > 20
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]:
        for number in re.findall(r"(?:[Dd]eviation|[Dd]ifference) (\d+)", path.read_text(encoding="utf-8")):
            assert number in explained, f"{path.name}: difference {number}"
