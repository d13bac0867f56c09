"""What stands on a page of Markdown: blocks of code, commands, links and headings."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", flags=re.DOTALL | re.MULTILINE)


def text_of(path: Path) -> str:
    """The text of a page, with the files that it includes."""

    def included(match: re.Match[str]) -> str:
        return (ROOT / match[1]).read_text(encoding="utf-8")

    return re.sub(r'^--8<-- "(.+)"$', included, path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def blocks(text: str, *languages: str) -> list[str]:
    """Blocks of code in any of the languages, without their indentation; "" is a block that names none."""
    found = []
    for indent, language, body in FENCE.findall(text):
        if language in languages:
            found.append(re.sub(rf"^{indent}", "", body, flags=re.MULTILINE))
    return found


def without_blocks(text: str) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", text)


def spans(text: str) -> list[str]:
    """Code within sentences; a line break in it is a space."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", without_blocks(text))]


def commands(text: str) -> list[str]:
    """Lines of shell in blocks, and of blocks of four spaces; lines that end in a backslash go on."""
    joined = "\n".join(blocks(text, "bash", "")).replace("\\\n", " ")
    indented = re.findall(r"^    (emorl .*)$", without_blocks(text), flags=re.MULTILINE)
    return [line.split(" #")[0].strip() for line in [*joined.splitlines(), *indented] if line.strip()]


def links(text: str) -> list[str]:
    """Where a page leads to, other hosts left out."""
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_blocks(text))


def anchors(text: str) -> set[str]:
    """The anchors of headings: letters, digits and hyphens of their words."""
    headings = re.findall(r"^#{1,6} (.+)$", without_blocks(text), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings)
    return {re.sub(r"\s+", "-", heading) for heading in plain}
