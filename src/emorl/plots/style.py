"""Charts, with matplotlib, which is imported only when one is drawn."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from emorl.errors import UserError

P = ParamSpec("P")
Chart = Any  # matplotlib.figure.Figure
Value = tuple[float, float]  # a mean and its spread
Curve = Sequence[Mapping[str, float]]  # points with "step", "cpu_minutes" and scores

PANELS = {"ari": "ARI (foreground)", "mse": "MSE", "kl_refined": "KL of the refined posterior (nats)"}

INK = "#3d434d"  # of text and lines; in a page it becomes the colour of its text
COLORS = ["#3b7dd8", "#e0782f", "#2f9e79", "#c0508f", "#8a72d8", "#b8912a", "#4aa3b8", "#d05353"]
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
    from matplotlib.figure import Figure  # not pyplot: no global state, no display needed

    return Figure(figsize=(width, height), layout="constrained")


def log_scale(axes: Any) -> None:
    """Powers of ten along the vertical axis, and no more names than that unless there would be none."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low > 10:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high / low < 200 else (1.0,)))
        axes.yaxis.set_major_formatter(
            lambda value, _: f"{value:g}" if 1e-3 < value < 1e4 else f"{value:.0e}"
        )
        axes.yaxis.set_minor_formatter(NullFormatter())


def literal(name: str) -> str:
    """A name that matplotlib takes as it is: not as a formula, nor as one to keep out of legends."""
    return name.replace("$", r"\$").replace("_", " ", int(name.startswith("_")))


@contextmanager
def any_letters() -> Iterator[None]:
    """No warning for letters that matplotlib's own font lacks: a page has the reader's fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def save_chart(chart: Chart, path: Path) -> None:
    """Writes PNG, SVG or PDF, as the name says."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with any_letters():
            chart.savefig(path)
    except (OSError, ValueError) as error:  # ValueError: a suffix that names no format
        raise UserError(f"Cannot write {path}: {getattr(error, 'strerror', None) or error}.") from None


def svg_of(chart: Chart) -> str:
    """The chart as an <svg> element for a page, in whose font and text colour it appears."""
    import matplotlib

    buffer = io.StringIO()
    bare: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # metadata name outside addresses
    with any_letters(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "emorl"}):
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


def learning_curves(curves: Mapping[str, Curve], path: Path, *, goals: Mapping[str, float]) -> None:
    """Draws ARI, MSE and KL against the step, one line per run; dashed lines are the paper's values, `goals`."""
    figure = blank(10, 3)
    panels: Any = figure.subplots(1, len(PANELS))
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        for label, curve in curves.items():
            axes.plot(
                [point["step"] for point in curve], [point[name] for point in curve], label=label, lw=1.2
            )
        if name in goals:
            axes.axhline(goals[name], color="black", lw=0.8, ls="--")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if name != "ari":
            axes.set_yscale("log")
    panels[0].set_ylim(0, 1.02)
    panels[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


@styled
def comparison(ours: Mapping[str, Value], theirs: Mapping[str, Value]) -> Chart:
    """ARI of runs, and of the systems of the paper, with their spread; what is far off stands at the edge."""
    rows = [(name, *value, True) for name, value in ours.items()]
    rows += [(name, *value, False) for name, value in theirs.items()]
    good = [mean for _, mean, _, _ in rows if mean > 0.7]
    left = min(0.9, min(good) - 0.05) if good else 0.0
    figure = blank(4.4, 0.5 + 0.3 * len(rows))
    axes = figure.subplots()
    for y, (_, mean, spread, is_ours) in enumerate(rows):
        look = {"color": COLORS[0] if is_ours else "#8b919c", "ms": 7 if is_ours else 5, "lw": 1.6}
        if mean < left:
            axes.plot(left, y, marker="<", **look)
        else:
            axes.errorbar(mean, y, xerr=spread, fmt="o", capsize=3, **look)
        text = {"weight": "bold" if is_ours else "normal", "fontsize": 8.5, "va": "center"}
        axes.text(1.02, y, f"{mean:.3f} ± {spread:.3f}", transform=axes.get_yaxis_transform(), **text)
    axes.set_yticks(range(len(rows)), [literal(name) for name, _, _, _ in rows])
    for label, (_, _, _, is_ours) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if is_ours else "normal")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left - 0.01, 1.005)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


@styled
def sorted_scores(values: Sequence[float], more_is_better: bool, *, title: str) -> Chart:
    """Every image's score, worst first."""
    figure = blank(3.4, 2.5)
    axes = figure.subplots()
    share = [100 * (i + 0.5) / len(values) for i in range(len(values))]
    axes.plot(share, sorted(values, reverse=not more_is_better), drawstyle="steps-mid")
    if not more_is_better and min(values) > 0:
        log_scale(axes)
    axes.set_title(title)
    axes.set_xlabel("% of the scenes, worst first")
    return figure


@styled
def scatter(x: Sequence[float], y: Sequence[float], xlabel: str, title: str) -> Chart:
    """A dot for each image."""
    figure = blank(3.4, 2.5)
    axes = figure.subplots()
    axes.plot(x, y, ls="", marker="o", ms=3.5, mew=0, alpha=0.6)
    if min(y) > 0:
        log_scale(axes)
    axes.set_title(f"{title} against {xlabel}")
    axes.set_xlabel(xlabel)
    return figure


@styled
def sweep_panel(
    curves: Sequence[tuple[str, Sequence[Mapping[str, float]]]],
    name: str,
    *,
    title: str,
    xlabel: str,
    factor: float = 1.0,
    usual: float | None = None,
) -> Chart:
    """One score against what was swept, a line for each (colour, points); dotted, the `usual` value."""
    figure = blank(3.4, 2.5)
    axes = figure.subplots()
    for color, points in curves:
        x, y = [point["value"] for point in points], [factor * point[name] for point in points]
        error = [factor * point.get(f"{name}_error", 0.0) for point in points]
        low, high = ([v + sign * e for v, e in zip(y, error, strict=True)] for sign in (-1, 1))
        axes.plot(x, y, marker="o", ms=4, color=color)
        axes.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
    if usual is not None:
        axes.axvline(usual, color=INK, lw=1, ls=":")
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_xticks(sorted({point["value"] for _, points in curves for point in points}))
    return figure
