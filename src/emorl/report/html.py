"""A page of text, tables, charts and pictures that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader

from emorl.panels import Panels
from emorl.plots.files import address, as_gif, data_address
from emorl.plots.style import Chart, svg_of
from emorl.report.touch import Follow, Touch

PIXELS = 112  # of an inch of a chart, at most
SIDE = 128  # of a panel, about


@dataclass(frozen=True)
class Tile:
    """A number in large type."""

    title: str
    value: str
    spread: str
    note: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Strip:
    """One row of panels as an image; `still` takes its place for those who want no motion."""

    source: str  # a data: address
    size: tuple[int, int]
    label: str = ""
    still: str = ""


@dataclass(frozen=True)
class Pictures:
    """Rows of panels under the names of their columns."""

    kind: ClassVar[str] = "pictures"
    strips: Sequence[Strip]
    titles: Sequence[tuple[str, str]]  # (name, colour or nothing)
    columns: int
    alt: str
    caption: str
    title: str = ""
    span: int = 12  # twelfths of the width, where there is room


@dataclass(frozen=True)
class Drawing:
    """A chart."""

    svg: str  # ours, so the template trusts it
    width: int
    alt: str


@dataclass(frozen=True)
class Charts:
    """Small charts side by side, under one legend and above one caption."""

    kind: ClassVar[str] = "charts"
    drawings: Sequence[Drawing]
    caption: str = ""
    legend: Sequence[tuple[str, str]] = ()  # (colour, name)
    title: str = ""
    span: int = 12


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    cells: Sequence[str]
    is_marked: bool = False


@dataclass(frozen=True)
class Table:
    """A table; with a `summary` it is folded away."""

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    lines: Sequence[Line]
    style: str  # "numbers", "numbers meanings" (with words in the last column) or "settings"
    caption: str = ""
    summary: str = ""
    span: int = 12


@dataclass(frozen=True)
class Commands:
    """Command lines."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]
    caption: str = ""
    span: int = 12


Block = Pictures | Charts | Table | Commands | Touch | Follow


@dataclass(frozen=True)
class Part:
    """Blocks side by side where there is room, under a heading if there is one."""

    blocks: Sequence[Block]
    title: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    name: str  # its anchor
    title: str
    prose: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """Everything on the page, from top to bottom."""

    title: str
    kicker: str
    lead: str
    tiles: Sequence[Tile]
    tiles_note: str
    sections: Sequence[Section] = field(default_factory=list)
    footer: str = ""


def pictures(panels: Panels, **words: Any) -> Pictures:
    """Panels for the page; `words` are the further fields of `Pictures`."""
    scale = max(1, round(SIDE / panels.side))
    labels = panels.labels or [""] * len(panels.rows)
    images = [panels.strip(row, scale) for row in range(len(panels.rows))]
    strips = [
        Strip(data_address(image), image.size, label) for image, label in zip(images, labels, strict=True)
    ]
    return Pictures(strips, colored_titles(panels), max(map(len, panels.rows)), **words)


def animation(frames: Sequence[Panels], **words: Any) -> Pictures:
    """One row of panels, in motion."""
    scale = max(1, round(SIDE / frames[0].side))
    images = [frame.strip(0, scale) for frame in frames]
    still = data_address(images[len(images) // 4])
    strip = Strip(address("image/gif", as_gif(images)), images[0].size, still=still)
    return Pictures([strip], colored_titles(frames[0]), len(frames[0].rows[0]), **words)


def colored_titles(panels: Panels) -> list[tuple[str, str]]:
    """Column titles with the colours of their slots, as CSS."""
    colors = [f"rgb{color}" if color else "" for color in panels.colors]
    return list(zip(panels.titles, colors, strict=True))


def drawing(chart: Chart, *, alt: str) -> Drawing:
    """A chart for the page."""
    return Drawing(svg_of(chart), round(chart.get_size_inches()[0] * PIXELS), alt)


def render(page: Page) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.jinja").render(page=page).strip() + "\n"
