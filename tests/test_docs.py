"""The README's commands run, its Python runs, and the docs name code that exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from emorl.cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORT = ["--train.steps", "2", "--train.evaluate-images", "2"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("bash") for line in block.splitlines()]


def test_every_readme_command_runs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, but for shorter training and smaller data; `make test` is what runs this test."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    monkeypatch.chdir(tmp_path)
    for command in commands():
        words = command.split()
        if command == "make test":
            continue
        if command in ("make demo", "make learn"):
            target = words[1]
            run = ["make", target, f"{target.upper()}_DIR={tmp_path / target}", "LEARN_STEPS=2"]
            result = subprocess.run(
                run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert result.returncode == 0, result.stderr
            assert (tmp_path / target / "scenes.png").exists()
            assert "ARI" in result.stdout
            assert target == "learn" or "emorl train efficient-morl/tetrominoes" in result.stdout
        else:
            assert words[0] == "emorl"
            words += SHORT if words[1] == "train" else []
            words += ["--images", "4"] if words[1] in ("evaluate", "sweep", "report") else []
            words += ["efficient-morl/tetrominoes-tiny"] if words[1] == "bench" else []
            words += ["--count", "50"] if words[1:3] == ["data", "store"] else []
            main(words[1:])  # leaves with SystemExit if it fails
    for block in blocks("python"):
        result = subprocess.run(
            [sys.executable, "-c", block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
    assert len(commands()) >= 10
    assert len(blocks("python")) == 1


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


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
