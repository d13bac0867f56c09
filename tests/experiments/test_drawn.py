"""Pictures of the documents: each was drawn from the result and the weights that are there now, or its page says no."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import ROOT
from doc_text import DOCS
from emorl.errors import UserError
from emorl.experiments.documents import read_results, usual_section
from emorl.experiments.drawn import (
    EARLIER,
    PICTURES,
    checksums,
    experiment_of,
    mark_of,
    marked,
    source_of,
    source_of_weights,
    weights_behind,
)
from emorl.explorer import film

FILES = sorted((ROOT / PICTURES).iterdir())
RESULTS = read_results(ROOT)


def wanted_mark(picture: Path) -> str:
    if picture.name == "explorer.gif":  # filmed, with weights and no result
        return source_of_weights([film.MODEL])
    return source_of(RESULTS[experiment_of(picture)])


@pytest.mark.parametrize("picture", FILES, ids=lambda path: path.name)
def test_a_picture_is_of_today_or_its_pages_say_no(picture: Path) -> None:
    """To mend it: `emorl reproduce --docs`, or `emorl reproduce NAME --publish-here` where runs are drawn."""
    mark = mark_of(picture.read_bytes())
    assert mark is not None, "where does it come from?"
    is_old = mark != wanted_mark(picture)
    for page in [*DOCS, ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        for after in re.findall(rf"\(\S*images/{re.escape(picture.name)}\)\n+(.*)", text):
            assert (after == EARLIER) == is_old, (
                f"{page.name}: {picture.name} is {'old' if is_old else 'current'}"
            )


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_mark_changes_no_pixel(kind: str) -> None:
    picture = Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).quantize(64)
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    content = marked(buffer.getvalue(), "0123456789abcdef")
    assert mark_of(buffer.getvalue()) is None
    assert mark_of(content) == "0123456789abcdef"
    assert mark_of(marked(content, "f" * 16)) == "f" * 16
    with Image.open(io.BytesIO(content)) as opened:
        assert np.array_equal(np.asarray(opened.convert("RGB")), np.asarray(picture.convert("RGB")))


def test_other_numbers_and_other_weights_are_another_source(monkeypatch: pytest.MonkeyPatch) -> None:
    result = RESULTS["figure-6"]
    first = result.rows[0]
    other = replace(first, values={**first.values, "ari": 0.5})
    assert source_of(replace(result, rows=[other])) != source_of(result)
    assert source_of(replace(result, stamp={"commit": "abc"})) == source_of(result)
    (name,) = weights_behind(result)
    before = source_of(result)
    monkeypatch.setattr(
        "emorl.experiments.drawn.checksums", lambda names: {**checksums(names), name: "of other weights"}
    )
    assert source_of(result) != before


def test_a_picture_that_is_left_behind_is_said_to_be(tmp_path: Path) -> None:
    """Only some rows are measured again, so nothing is drawn."""
    result = RESULTS["figure-8"]
    picture = tmp_path / "figure-8.png"
    picture.write_bytes((ROOT / PICTURES / "figure-8.png").read_bytes())
    assert EARLIER not in usual_section("figure-8", result, picture)
    changed = replace(result.rows[0], values={**result.rows[0].values, "ari": 0.5})
    assert EARLIER in usual_section("figure-8", replace(result, rows=[changed, *result.rows[1:]]), picture)


def test_pictures_are_called_after_experiments() -> None:
    assert experiment_of(Path("comparison-tetrominoes-curves.png")) == "comparison"
    assert experiment_of(Path("figure-10.png")) == "figure-10"
    assert experiment_of(Path("home.gif")) == "zoo"
    with pytest.raises(UserError, match="called after no experiment"):
        experiment_of(Path("holiday.png"))
