"""The files around the code: version, changelog, CI, templates and pre-commit agree with one another."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import emorl
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FORMS = sorted(
    set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}
)


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    place = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert re.findall(r'^__version__ = "(.+)"$', place.read_text("utf-8"), flags=re.MULTILINE) == [
        emorl.__version__
    ]
    assert "version:" not in re.sub("cff-version:", "", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_changelog_has_this_version_first() -> None:
    headings = re.findall(
        r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released[0].split()[0] == emorl.__version__
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in released)
    versions = [tuple(map(int, heading.split()[0].split("."))) for heading in released]
    assert versions == sorted(versions, reverse=True)


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"].values()
    ran = [step["run"] for step in job["steps"] if "run" in step]
    assert ran == [".ci/run", "make docs"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    (version,) = [
        step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")
    ]
    assert PROJECT["project"]["requires-python"] == f">={version}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_ask_for_something(path: Path) -> None:
    form = read_yaml(path)
    assert form["name"]
    assert form["description"]
    kinds = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    assert {part["type"] for part in form["body"]} <= kinds
    names = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(names) == len(set(names))
    assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_pre_commit_uses_the_tools_of_the_environment() -> None:
    (source,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert source["repo"] == "local"
    needed = " ".join(PROJECT["project"]["optional-dependencies"]["dev"])
    for hook in source["hooks"]:
        folder, program = hook["entry"].split()[0].rsplit("/", 1)
        assert folder == ".venv/bin"
        assert program == "python" or program in needed
        for name in re.findall(r"\S+\.py", hook["entry"]):
            assert (ROOT / name).exists()


def needs(extra: str) -> set[str]:
    """What an extra installs, and the extras that it names."""
    found = set()
    for need in PROJECT["project"]["optional-dependencies"][extra]:
        named = re.fullmatch(r"emorl\[(.+)\]", need)
        found |= {one for other in named[1].split(",") for one in needs(other)} if named else {need}
    return found


def test_what_tests_need_is_pinned() -> None:
    """So that everybody tests the same versions."""
    pinned = set(
        re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), flags=re.MULTILINE)
    )
    for need in {*PROJECT["project"]["dependencies"], *needs("dev")}:
        assert re.split(r"[\[><=]", need)[0] in pinned, need


def test_addresses_are_those_of_the_pages() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert PROJECT["project"]["urls"]
    assert all(address in readme for address in PROJECT["project"]["urls"].values())
