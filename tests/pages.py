"""check_page(): what must be true of every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Checker(HTMLParser):
    """Tags that are not closed in order, and addresses."""

    VOID = frozenset(("meta", "link", "img", "source", "br", "hr"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}
        self.addresses += [value or "" for name, value in attributes if name in named]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> Checker:
    """A page is whole, and needs nothing but itself."""
    checker = Checker(page)
    assert checker.open == []
    assert checker.addresses
    assert all(re.match(r"data:|#", address) for address in checker.addresses)
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page
    assert re.findall("<script[^>]*>", page) == ['<script type="module">']  # our own, in the page itself
    assert checker.headings[0] == 1
    assert all(after - before <= 1 for before, after in zip(checker.headings, checker.headings[1:], strict=False)
               if after != 4)  # fmt: skip
    assert all("alt" in image for image in checker.images)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert all(address[1:] in ids for address in checker.addresses if address.startswith("#"))
    return checker


def sections_of(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', page)
