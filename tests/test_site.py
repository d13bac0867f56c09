"""The documentation site: it builds without a warning, is whole, asks nothing of other hosts, and fits a phone."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import emorl
from browser import PHONE, Visit, in_a_browser
from conftest import ROOT

CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


def pages_of(nav: list[Any]) -> Iterator[str]:
    """The files of the site's navigation."""
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from pages_of(target)


class Page(HTMLParser):
    """The addresses and anchors of a page, and its text outside of code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []  # what the browser fetches by itself
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.code = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attributes}
        self.ids |= {named[name] for name in ("id", "name") if name in named}
        self.code += tag in ("code", "script", "style")
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag in LOADED and named.get(LOADED[tag]) and named.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(named[LOADED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self.code -= tag in ("code", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self.code:
            self.text.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it, but elsewhere."""
    pytest.importorskip("zensical", reason="no zensical here: pip install 'emorl[docs]'")
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("zensical.toml", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "docs", folder / "docs")  # a link would lead out of the project
    (folder / "src").symlink_to(ROOT / "src")
    (make,) = re.findall(r"zensical (build .*)$", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    command = [sys.executable, "-m", "zensical", *make.split()]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_in_the_navigation() -> None:
    shown = list(pages_of(CONFIG["nav"]))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(shown) == written
    assert len(shown) == len(written)


def test_nothing_is_loaded_from_other_hosts(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        assert page.loaded
        assert [address for address in page.loaded if re.match(r"(\w+:)?//", address)] == [], name


def test_links_pictures_and_anchors_lead_somewhere(site: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        if name == "404.html":  # is shown at any address, and so has absolute ones
            continue
        for address in [*page.loaded, *page.links]:
            if re.match(r"\w+:", address):
                continue
            path, _, anchor = address.partition("#")
            target = (site / name).parent / unquote(path) if path else site / name
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{name}: {address}"
            assert site in target.resolve().parents, f"{name}: {address}"
            if anchor and target.suffix == ".html":
                relative = target.resolve().relative_to(site.resolve()).as_posix()
                assert unquote(anchor) in pages[relative].ids, f"{name}: {address}"


def test_markdown_became_html(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        text = "".join(page.text)
        for left_over in ("```", "--8<--", ":::", "!!!", "**", "](", "| --"):
            assert left_over not in text, f"{name}: {left_over}"
        assert re.findall(r"^\d+\. .*", text, flags=re.MULTILINE) == [], name  # an item that is in no list


def test_the_reference_has_every_public_name(pages: dict[str, Page]) -> None:
    dictionaries = {"DATASETS", "MODELS", "PRESETS"}
    assert {f"emorl.{name}" for name in set(emorl.__all__) - dictionaries} <= pages["api.html"].ids


def test_every_picture_is_on_a_page(site: Path, pages: dict[str, Page]) -> None:
    shown = {Path(address).name for page in pages.values() for address in page.loaded}
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.name in shown or picture.name in (ROOT / "README.md").read_text("utf-8"), picture.name


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without telling."""

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@in_a_browser
def test_no_page_is_wider_than_a_phone(visit: Visit, address: str) -> None:
    page = visit(f"{address}index.html", **PHONE)
    for name in pages_of(CONFIG["nav"]):
        page.goto(f"{address}{name.removesuffix('.md')}.html")
        width, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= shown == 390, name
        broken = (
            "[...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src)"
        )
        assert page.evaluate(broken) == [], name


@in_a_browser
def test_light_and_dark(visit: Visit, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    found = {
        scheme: [int(n) for n in re.findall(r"\d+", visit(address, color_scheme=scheme).evaluate(ground))[:3]]
        for scheme in ("light", "dark")
    }
    assert min(found["light"]) > 240
    assert max(found["dark"]) < 60


@in_a_browser
@pytest.mark.parametrize("from_disk", [False, True])
def test_search_finds_an_answer(visit: Visit, address: str, site: Path, from_disk: bool) -> None:
    page = visit(f"{site.as_uri()}/install.html" if from_disk else f"{address}install.html")
    answer = page.locator("a[href*='#why-are-my-slots-empty']")
    assert answer.count() == 0
    page.keyboard.press("Control+k")
    box = page.get_by_placeholder("Search").last
    box.wait_for()
    box.press_sequentially("empty", delay=100)
    answer.first.wait_for()
