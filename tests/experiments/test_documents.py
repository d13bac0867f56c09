"""The documents: every page is what results/ says, and publishing a result brings its page up to date."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from conftest import ROOT
from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS
from emorl.experiments.documents import publish, read_results, render, rendered, replaced, sections
from emorl.experiments.results import Result

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_page_is_what_the_results_say() -> None:
    for path, text in rendered(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: emorl reproduce --docs"


def test_everything_between_markers_is_rendered() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}#{part}"
        for path in PAGES
        for part in re.findall(r"^<!-- /([\w-]+) -->$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert found == set(sections(ROOT))


def test_every_experiment_with_a_result_is_on_a_page() -> None:
    names = {name for name, experiment in EXPERIMENTS.items() if experiment.sections is None}
    assert {f"docs/reproduction.md#{name}" for name in names} <= set(sections(ROOT))
    assert set(read_results(ROOT)) <= set(EXPERIMENTS)  # of some, the page says that they were not run yet


def test_a_paper_number_never_stands_without_its_steps() -> None:
    for text in sections(ROOT).values():
        for head in re.findall(r"^\|.*paper: ARI.*$", text, flags=re.MULTILINE):
            assert "| steps |" in head
            assert "paper: steps" in head


def test_markers_must_be_there() -> None:
    assert replaced("<!-- x -->\nold\n<!-- /x -->", "x", "new") == "<!-- x -->\nnew\n<!-- /x -->"
    with pytest.raises(UserError, match="stand 0 times"):
        replaced("nothing", "x", "new")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path in [*PAGES, *(ROOT / "results").glob("*.json")]:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (tmp_path / "docs" / "images").mkdir()
    return tmp_path


def test_publishing_a_result(checkout: Path, tmp_path: Path) -> None:
    render(checkout)  # there are no pictures there
    earlier = read_results(checkout)["figure-8"]
    rows = [replace(row, values={**row.values, "ari": 0.123}) for row in earlier.rows if row.label == "L=2"]
    folder = tmp_path / "out"
    folder.mkdir()
    Image.new("RGB", (2, 2)).save(folder / "figure-8.png")
    publish(Result("figure-8", rows, {"commit": "abc"}), folder, checkout)
    result = read_results(checkout)["figure-8"]
    assert [row.label for row in result.rows] == [row.label for row in earlier.rows]
    commits = {row.label: result.stamp_of(row)["commit"] for row in result.rows}
    assert (commits["L=2"], commits["L=3"]) == ("abc", None)
    page = (checkout / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert "| L=2 | 2 | 2 000 | 0.123 ± 0.000 |" in page
    assert "Measured with commit abc." in page
    assert "images/figure-8.png)\n<!--" in page  # drawn from this very result, so nothing is said of it
    assert render(checkout) == []
    with pytest.raises(UserError, match="not those of the documents"):
        publish(Result("figure-8", rows, scale="tiny"), folder, checkout)


def test_a_stale_page_is_found(checkout: Path) -> None:
    render(checkout)
    path = checkout / "results" / "table-1.json"
    result = Result.read(path)
    first = replace(result.rows[0], values={**result.rows[0].values, "ari": 0.123})
    replace(result, rows=[first, *result.rows[1:]]).write(path)
    assert render(checkout) == [checkout / "docs" / "reproduction.md"]
