"""Where numbers come from."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT
from emorl.runs import provenance


@pytest.fixture(autouse=True)
def _anew() -> None:
    provenance.commit.cache_clear()


def test_a_stamp_says_all_and_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    found = json.loads(json.dumps(provenance.stamp()))
    assert set(found) == {
        "version", "commit", "python", "torch", "numpy", "machine", "system", "cpu", "threads", "load", "allocator",
        "cuda",
    }  # fmt: skip
    assert found["allocator"]["MALLOC_ARENA_MAX"] == "2"
    assert found["threads"] >= 1


def git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_only_a_checkout_of_this_package_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed below someone else's repository, the package must not claim that commit as its own."""
    package = tmp_path / "site-packages" / "emorl" / "runs"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "emorl" / "runs" / "provenance.py", package)
    (tmp_path / "other.txt").write_text("")
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
    assert provenance.commit() == provenance.INSTALLED
    git(tmp_path, "init")
    git(tmp_path, "add", "other.txt")
    git(tmp_path, "commit", "-m", "x")
    provenance.commit.cache_clear()
    assert provenance.commit() == provenance.INSTALLED
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    provenance.commit.cache_clear()
    assert len(provenance.commit()) == 40
    (package / "provenance.py").write_text("changed")
    provenance.commit.cache_clear()
    assert provenance.commit().endswith("+changes")


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert provenance.commit() == provenance.INSTALLED
