"""Measured numbers stand in parts that are rendered from results/; what is written by hand holds only other numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT
from doc_text import DOCS, text_of, without_blocks

# The page of differences has constants of the paper and of the authors' code, and the changelog says what was new.
PAGES = [path for path in [ROOT / "README.md", *DOCS] if path.name not in ("changelog.md", "differences.md")]
RENDERED = re.compile(r"^<!-- ([\w-]+) -->\n.*?^<!-- /\1 -->$", flags=re.DOTALL | re.MULTILINE)
# What a measurement looks like: a decimal fraction, a share, a time, an amount of memory, a comparison of two.
MEASURED = re.compile(
    r"\d+\.\d+|\d+ ?%|± \d|\d+ (?:to \d+ )?(?:CPU )?(?:ms|milliseconds|seconds|minutes|hours|MiB|GiB|nats|GFLOP)\b"
    r"|(?:twice|\b(?:\d|two|three|four|five|ten) times) as"
)
NOT_MEASURED = {
    "versions and licences": r"Python 3\.\d+|Apache 2\.0|CC BY 4\.0|version 0\.1|[Bb]efore 1\.0|127\.0\.0\.1",
    "questions": r"ARI 0\.98 (?:and|mean when) mIoU (?:is )?0\.3|mean IoU near 0\.3",
    "targets": r"2\.8 times|well below 2\.8|1e-9",
    "settings": r"σ = 0\.\d|deviation of 0\.05|2 % of the images' variance|0\.8 of its height|0\.007 for 800 steps"
    r"|a price of 100\nnats|weighed 500 times",
    "limits and definitions": r"256 MiB|32 MiB|1 MiB|4 % off the turned"
    r"|more than 0\.0001|less than 1 %|weigh four times as",
    "the paper's": r"five hours on two GPUs",
}


def by_hand(path: Path) -> str:
    """A page without what is rendered and without code."""
    return re.sub(r"`[^`]*`", "", without_blocks(RENDERED.sub("", text_of(path))))


def measurements(text: str) -> list[str]:
    """What looks measured, with the words around it."""
    for known in NOT_MEASURED.values():
        text = re.sub(known, "", text)
    return [text[max(0, found.start() - 40) : found.end() + 20] for found in MEASURED.finditer(text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_measured_number_is_written_by_hand(path: Path) -> None:
    """Put it into results/ and let `emorl reproduce --docs` render it, or leave it to the table."""
    assert measurements(by_hand(path)) == []


def test_a_measured_number_would_be_found() -> None:
    wrong = (
        "an ARI of 0.93",
        "20 % faster",
        "takes 12 minutes",
        "twice as fast",
        "0.917 ± 0.014",
        "4 to 6 minutes",
    )
    assert all(measurements(text) for text in wrong)
    assert measurements("with σ = 0.1 and at most 256 MiB, 320 scenes") == []


def test_what_is_allowed_is_on_a_page() -> None:
    text = "\n".join(by_hand(path) for path in PAGES)
    for why, known in NOT_MEASURED.items():
        for one in known.split("|") if "(" not in known else [known]:
            assert re.search(one, text), f"{why}: {one}"
