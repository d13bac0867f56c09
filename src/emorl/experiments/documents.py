"""The documents: every table in README and docs comes from results/, and shown code from the source.

Markers `<!-- name -->` and `<!-- /name -->` stand around what is rendered; everything else is written by hand.
"""

from __future__ import annotations

import inspect
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS
from emorl.experiments.drawn import EARLIER, PICTURES, is_current, take
from emorl.experiments.results import Result, merged, run_label
from emorl.experiments.runner import labels_of
from emorl.experiments.tables import NOT_RUN, provenance, results_table
from emorl.files import read_bytes, write_bytes
from emorl.models.efficient_morl import EfficientMORL

LARGEST_PAGE = 2**24  # bytes
RESULTS = Path("results")
# "page.md#part" -> the function whose source stands there, so that a page never shows another one.
SHOWN: Mapping[str, Callable[..., Any]] = {
    "docs/algorithm.md#bottom-up": EfficientMORL.bottom_up,
    "docs/algorithm.md#compute": EfficientMORL.compute,
}


def read_results(root: Path) -> dict[str, Result]:
    """The results in a checkout, by experiment."""
    if not (root / RESULTS).is_dir():
        raise UserError(f"{root.resolve()} has no folder {RESULTS}: go to a checkout of the repository.")
    paths = {name: root / RESULTS / f"{name}.json" for name in EXPERIMENTS}
    return {name: Result.read(path) for name, path in paths.items() if path.exists()}


def usual_section(name: str, result: Result | None, picture: Path) -> str:
    """An experiment as Markdown: the command, how it is made, what the paper says, the table and the picture."""
    experiment = EXPERIMENTS[name]
    parts = [f"`emorl reproduce {name}`: {experiment.how('cpu')}."]
    parts += [f"Paper: {experiment.paper}"] if experiment.paper else []
    if result is None:
        return "\n\n".join([*parts, f"This was {NOT_RUN}."])
    labels = labels_of(name, "cpu")
    older = [row.label for row in result.rows if labels and run_label(row.label, labels) is None]
    note = f" Rows from “{older[0]}” on are of an earlier protocol." if older else ""
    parts += [results_table(experiment, result, labels), provenance(result) + note]
    if picture.exists():
        parts.append(f"![{experiment.title}](images/{picture.name})")
        parts += [] if is_current(picture, result) else [EARLIER]
    return "\n\n".join(parts)


def sections(root: Path) -> dict[str, str]:
    """Every rendered part, "page.md#part" -> Markdown."""
    results = read_results(root)
    found = {
        place: f"```python\n{textwrap.dedent(inspect.getsource(shown)).rstrip()}\n```"
        for place, shown in SHOWN.items()
    }
    for name, experiment in EXPERIMENTS.items():
        result = results.get(name)
        if experiment.sections is None:
            picture = root / PICTURES / f"{name}.png"
            found[f"docs/reproduction.md#{name}"] = usual_section(name, result, picture)
        elif result is not None:
            found |= experiment.sections(result)
    return found


def replaced(text: str, part: str, content: str) -> str:
    """`text` with what stands between the markers of `part` replaced. Raises UserError if they are not there."""
    pattern = rf"(<!-- {re.escape(part)} -->\n).*?(<!-- /{re.escape(part)} -->)"
    text, times = re.subn(pattern, lambda match: f"{match[1]}{content}\n{match[2]}", text, flags=re.DOTALL)
    if times != 1:
        raise UserError(f"The markers of {part} stand {times} times on its page, instead of once.")
    return text


def rendered(root: Path) -> Mapping[Path, str]:
    """Every page as it should be."""
    pages: dict[Path, str] = {}
    for place, content in sections(root).items():
        name, _, part = place.partition("#")
        path = root / name
        pages[path] = replaced(pages.get(path) or text_of(path), part, content)
    return pages


def text_of(path: Path) -> str:
    """Returns the text of a page; raises UserError if there is none."""
    return read_bytes(path, largest=LARGEST_PAGE).decode("utf-8", errors="surrogateescape")


def render(root: Path) -> list[Path]:
    """Brings all pages up to date. Returns those that were not."""
    pages = rendered(root)
    old = [path for path, text in pages.items() if text_of(path) != text]
    for path in old:
        write_bytes(path, pages[path].encode("utf-8", errors="surrogateescape"))
    return old


def illustrate(root: Path, names: Iterable[str] = EXPERIMENTS) -> None:
    """Draws the pictures that come from results alone."""
    results = read_results(root)
    for name in names:
        draw = EXPERIMENTS[name].illustrate
        if draw is not None and name in results:
            with tempfile.TemporaryDirectory() as folder:
                draw(results[name], Path(folder))
                take(Path(folder).iterdir(), root / PICTURES, results[name])


def publish(result: Result, folder: Path, root: Path) -> None:
    """Takes a result, and the pictures beside it in `folder`, into a checkout, and brings its pages up to date.

    Rows of runs that were not measured this time stay, if the experiment still has them.
    """
    earlier = read_results(root).get(result.experiment)
    if result.scale != "cpu":
        raise UserError(f"Results of the scale {result.scale} are not those of the documents.")
    labels = labels_of(result.experiment, "cpu")
    if earlier is not None and labels:
        result = replace(result, rows=merged(result.rows, earlier, labels))
    result.write(root / RESULTS / f"{result.experiment}.json")
    name = result.experiment
    drawn = [*folder.glob(f"{name}.png"), *folder.glob(f"{name}-*.png")]
    take(drawn, root / PICTURES, read_results(root)[name])
    illustrate(root, [name])
    render(root)
