"""Colours, fonts and files of charts. matplotlib is imported only when something is drawn, and only in plots/."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from emorl.errors import UserError
from emorl.files import MARK, cause, check_output, make_directory, write_bytes

P = ParamSpec("P")
Chart = Any  # matplotlib.figure.Figure
KINDS = ("", "png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff")  # suffixes that chart files may have

INK = "#3d434d"  # of text and lines; in a page it becomes the colour of its text
COLORS = ["#3b7dd8", "#e0782f", "#2f9e79", "#c0508f", "#8a72d8", "#b8912a", "#4aa3b8", "#d05353"]
DASHES: list[Any] = ["-", (0, (4, 2)), (0, (1, 1.5)), "-."]
STYLE = {
    "axes.prop_cycle": None,  # filled in by `styled`: it needs matplotlib
    "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK,
    "xtick.color": INK, "ytick.color": INK, "grid.color": INK, "grid.alpha": 0.13, "grid.linewidth": 0.7,
    "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.minor.width": 0.0,
    "ytick.minor.width": 0.0, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelsize": 9, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "legend.fontsize": 8.5,
    "legend.frameon": False, "lines.linewidth": 1.5, "savefig.dpi": 130,
}  # fmt: skip


def styled(draw: Callable[P, Chart]) -> Callable[P, Chart]:
    """Draws in the style of this package, whatever the user's own is, and leaves that as it was."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Chart:
        import matplotlib
        from cycler import cycler

        style: Any = {**STYLE, "axes.prop_cycle": cycler(color=COLORS)}
        with matplotlib.rc_context(style):
            return draw(*args, **kwargs)

    return drawn


def blank(width: float, height: float) -> Chart:
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure  # not pyplot: no global state, no display needed

    return Figure(figsize=(width, height), layout="constrained")


def log_scale(axes: Any) -> None:
    """A logarithmic vertical axis with numbers at powers of ten, or also at 3, 30, ... where there would be few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high / low < 200 else (1.0,)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if 1e-3 < value < 1e4 else f"{value:.0e}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def log_log_scale(axes: Any) -> None:
    """Both axes logarithmic, with ordinary numbers at them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())


def literal(name: str) -> str:
    """A name that matplotlib prints as it is: not as a formula ($), and in legends even if it begins with _."""
    return name.replace("$", r"\$").replace("_", " ", int(name.startswith("_")))


@contextmanager
def without_font_warnings() -> Iterator[None]:
    """No warning for letters that matplotlib's own font lacks: a page has the reader's fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def check_chart_file(path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Raises UserError if a chart cannot be written there: because of its suffix, or what is there already."""
    if path.suffix.lower().removeprefix(".") not in KINDS and not path.is_dir():
        raise UserError(
            f"Cannot write {path}: {path.suffix!r} is no kind of chart; name it .png, .svg or .pdf."
        )
    check_output(path, inputs=inputs)


def save_chart(chart: Chart, path: Path) -> None:
    """Writes PNG, SVG or PDF, as the name says, at once or not at all. The file has MARK, if it can."""
    kind, buffer = path.suffix.lower().removeprefix("."), io.BytesIO()
    place = {"png": "Software", "svg": "Creator", "pdf": "Creator"}.get(kind)  # where MARK stands
    try:
        with without_font_warnings():
            chart.savefig(buffer, format=kind or "png", metadata={place: MARK} if place else None)
    except (OSError, ValueError) as error:  # ValueError: a suffix that names no format
        raise UserError(f"Cannot write {path}: {cause(error)}.") from None
    make_directory(path.parent)
    write_bytes(path, buffer.getvalue())


def svg_of(chart: Chart) -> str:
    """The chart as an <svg> element for a page, in whose font and text colour it appears."""
    import matplotlib

    buffer = io.StringIO()
    # matplotlib's own metadata would put addresses of web sites into the page.
    bare: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with without_font_warnings(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "emorl"}):
        chart.savefig(buffer, format="svg", transparent=True, metadata=bare)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<(metadata|style).*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[a-zA-Z0-9]+(?:\.[a-z]+)?_\d+"', "", svg)  # counted anew in each chart, used by none
    svg = re.sub(r"font-family: [^;\"]+;? ?", "", svg)
    # A hundredth of a point is enough.
    svg = re.sub(r' (?:d|x|y|transform)="[^"]+"', lambda at: re.sub(r"(\.\d\d)\d+", r"\1", at[0]), svg)
    own = hashlib.sha256(svg.encode()).hexdigest()[:6]  # names that charts of one page do not share
    return re.sub(r"(id=\"|#)([a-z][0-9a-f]{10})\b", rf"\g<1>\g<2>{own}", svg)
