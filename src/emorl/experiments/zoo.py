"""Zoo: every weight that comes with the package, with its card, its picture, and how long an image takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from emorl.evaluation.cost import Pass, costs
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.metrics import METRICS, renamed
from emorl.evaluation.segmentation import adjusted_rand_index
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import LONG
from emorl.experiments.tables import columns, count, provenance, table
from emorl.files import write_bytes
from emorl.panels import Panels, Pixels, owner_pixels, to_pixels
from emorl.plots.files import as_gif, save_chart, save_picture
from emorl.plots.lines import score_chart
from emorl.plots.scenes import scene_panels
from emorl.report.paper import PUBLISHED_ARI, Published
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run, load, released

OWN_PICTURES = "efficient-morl/folder"  # the preset that people train on their own pictures
FOR_PICTURES = "efficient-morl/clevr6"  # the weights of the tutorial on pictures of one's own
SAME_RECIPE = "efficient-morl/multi-dsprites"  # on images of the same size, in batches of the same size
BATCH, REPEATS = 16, 5
Column = Callable[[Run], str]  # a run -> the text of its cell in a table
SHOWN = (
    "ari",
    "ari_by_colour",
    "ari_with_background",
    "miou",
    "miou_by_colour",
    "mse",
    "slots_used",
    "kl",
)  # of cards
COLUMNS = ("ari", "ari_by_colour", "ari_with_background", "miou", "mse")  # of the table of all weights
WAYS = {
    "one sample": "scores",
    "the same from one start, as in the paper": "scores_of_one_start",
    "without refinement, `--steps 0`": "scores_without_refinement",
    "best of four, `--tries 4`": "scores_of_four_tries",
}
# Of the moving picture, from top to bottom.
HOME = (
    "efficient-morl/tetrominoes",
    "efficient-morl/multi-dsprites-long",
    "efficient-morl/clevr6-long",
)
CHOSEN_FROM = 3  # the first held-out scenes: the one with the median ARI is shown
SIDE = 192  # of the panels of the scene that is put together, in pixels
HOLD = 8  # frames that a slot stays the last one; the finished picture stays three times as long


def measure(job: Job) -> Iterator[Row]:
    """Yields the processor time that each weight takes for an image."""
    batch, repeats = (2, 1) if job.scale == "tiny" else (BATCH, REPEATS)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as in training
    passes = {name: Pass(partial(load, name), batch) for name in released()}
    for name, cost in costs(passes, repeats=repeats).items():
        yield Row(name, {"seconds": round(cost.quartiles[1], 5)})


def sections(result: Result) -> dict[str, str]:
    """One table of all weights, the card of each, and how long a training on pictures of one's own takes."""
    seconds = {row.label: row.values["seconds"] for row in result.rows}
    runs = [Run.open(name) for name in released()]
    milliseconds = {
        "ms per image": lambda run: f"{1000 * seconds[run.name]:.0f}" if run.name in seconds else "",
    }
    beside_paper: dict[str, Column] = {
        "weights": lambda run: f"`{run.name}`",
        "ARI": score("ari"),
        "ARI, one start": from_one_start,
        "ARI by mask and colour": score("ari_by_colour"),
        "ARI with background": score("ari_with_background"),
        "mean IoU": score("miou"),
        "steps": lambda run: count(run.steps_in_all),
        "CPU minutes": minutes,
        **milliseconds,
        "paper: ARI": lambda run: METRICS["ari"].text(*found[:2]) if (found := published(run)) else "",
        "paper: steps": lambda run: (
            count(PRESETS[f"{task(run)}-paper"].train.steps) if published(run) else ""
        ),
    }
    all_weights: dict[str, Column] = {
        "weights": lambda run: f"[`{run.name}`](#{anchor(run.name)})",
        **{METRICS[name].heading: score(name) for name in COLUMNS},
        "ARI, one start": from_one_start,
        **milliseconds,
        "CPU minutes to train": minutes,
    }
    measured = f"`emorl reproduce zoo`, one core, images in batches of {BATCH}. {provenance(result)}"
    return {
        "README.md#weights": columns(runs, beside_paper),
        "docs/zoo.md#weights": f"{columns(runs, all_weights)}\n\n{measured}",
        "docs/zoo.md#cards": "\n\n".join(card(run) for run in runs),
        "docs/tutorials/own-pictures.md#times": times(seconds),
    }


def score(name: str, way: str = "scores") -> Column:
    """A column with one score of the cards, empty where a card is older than the score."""
    return lambda run: METRICS[name].text(found[name]) if name in (found := scores(run, way)) else ""


def from_one_start(run: Run) -> str:
    """A cell: ARI with stage 1 done once, as in the paper."""
    way = "scores_of_one_start"
    return score("ari", way if way in run.card else "scores")(run)


def minutes(run: Run) -> str:
    """A cell: the processor time of the training."""
    return f"{run.card['cpu_minutes']:.0f}"


def task(run: Run) -> str:
    """The system and the data set of released weights, as "system/data set"."""
    return run.name.removesuffix(LONG)


def published(run: Run) -> Published | None:
    """What the paper reports of that system on that data set."""
    system, _, dataset = task(run).partition("/")
    return PUBLISHED_ARI.get((system, dataset))


def times(seconds: Mapping[str, float]) -> str:
    """How long pictures of one's own take, and a training on them, at the pace of weights with the same recipe."""
    steps, card = PRESETS[OWN_PICTURES].train.steps, Run.open(SAME_RECIPE).card
    minutes = card["cpu_minutes"] * steps / card["steps"]
    lines = [
        f"- To train on your pictures, once: **about {minutes:.0f} minutes of one core**. That is {count(steps)} steps "
        f"at the pace of `{SAME_RECIPE}`, the same recipe and image size, which took {card['cpu_minutes']:.0f} "
        f"CPU minutes for {count(card['steps'])} steps, with more refinements."
    ]
    if FOR_PICTURES in seconds:
        each = f"**{1000 * seconds[FOR_PICTURES]:.0f} ms a picture** on one core"
        lines.insert(
            0, f"- To take pictures apart with `{FOR_PICTURES}`: {each}, besides the start of the command."
        )
    return "\n".join(lines)


def anchor(name: str) -> str:
    """The anchor of the heading of a card."""
    return name.replace("/", "")


def scores(run: Run, way: str) -> dict[str, Any]:
    """Scores of a card, under today's names."""
    return renamed(run.card[way])


def card(run: Run) -> str:
    """One weight as Markdown: its picture, its scores, and how it was made."""
    names = [name for name in SHOWN if name in scores(run, "scores")]
    found = [
        [way, *(score(name, key)(run) for name in names)] for way, key in WAYS.items() if key in run.card
    ]
    model = run.config.model
    facts = [
        ["learned from", run.card["data"]],
        ["images", f"{model.image_size} x {model.image_size} pixels"],
        ["slots, refinements", f"K = {model.num_slots}, I = {run.card['scores']['num_steps']}"],
        ["training", f"{count(run.steps_in_all)} steps, {run.card['cpu_minutes']:.0f} CPU minutes, seed {run.seed}"],
        ["made by", f"`{run.card['command']}`"],
        ["scored on", f"{run.card['scores']['images']} held-out scenes"],
        ["file", f"{run.weights.stat().st_size / 2**20:.1f} MiB, sha256 `{run.card['sha256'][:16]}…`"],
    ]  # fmt: skip
    parts = [
        f"### {run.name}",
        f"![Held-out scenes taken apart by {run.name}](images/{picture_of(run.name)})",
        table(["scores", *(METRICS[name].heading for name in names)], found),
        table(["card", ""], facts),
    ]
    return "\n\n".join(parts)


def picture_of(name: str) -> str:
    """The file name of a weight's picture."""
    return f"zoo-{name.replace('/', '-')}.png"


def illustrate(result: Result, pictures: Path) -> None:
    """Scenes taken apart by each weight, and the moving picture of the home page."""
    for name in released():
        run = Run.open(name)
        scenes = run.scenes("test")
        save_picture(
            scene_panels(run.model, scenes, indices=range(4), sample=True), pictures / picture_of(name)
        )
    write_bytes(pictures / "home.gif", as_gif(put_together()))
    shown = ("ari", "miou", "mse")
    curves = {name: found for name in released() if (found := Run.open(name).curve(*shown))}
    if curves:
        chart = score_chart(curves, label="CPU minutes", x="cpu_minutes", names=shown, log=("mse",))
        save_chart(chart, pictures / "zoo-curves.png")


def put_together() -> list[Image.Image]:
    """Frames of a scene of each data set that is put together again, slot by slot, beside the image and its objects."""
    rows = [states_of(Run.open(name)) for name in HOME]
    longest = max(len(states) for _, states in rows)
    titles = ("image", "objects found", "put together again")
    stills = [
        Panels(
            [[*fixed, states[min(step, len(states) - 1)]] for fixed, states in rows], titles=titles
        ).drawn()
        for step in range(longest)
    ]
    return [still for still in stills for _ in range(HOLD)] + [stills[-1]] * (2 * HOLD)


def states_of(run: Run) -> tuple[list[Pixels], list[Pixels]]:
    """A typical scene and its objects; and what its slots paint together, one more each time, the largest first."""
    scenes = run.scenes("test")
    tried = {scene: decompose_scene(run.model, scenes, scene, tries=4) for scene in range(CHOSEN_FROM)}

    def ari(scene: int) -> float:
        return float(adjusted_rand_index(tried[scene].segmentation, scenes[scene].segmentation[None].long()))

    scene = sorted(tried, key=ari)[CHOSEN_FROM // 2]
    parts = tried[scene]
    order = parts.masks[0].sum(dim=(1, 2, 3)).argsort(descending=True)
    painted = (parts.masks * parts.components)[0, order].cumsum(dim=0)  # (K, 3, H, W)
    fixed = to_pixels(scenes[scene].image), owner_pixels(parts.masks[0])
    return [enlarged(one) for one in fixed], [enlarged(to_pixels(one)) for one in painted]


def enlarged(pixels: Pixels) -> Pixels:
    """A square picture with sides of SIDE pixels, its own pixels still to be seen."""
    return np.asarray(Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.NEAREST))


EXPERIMENT = Experiment(
    "The weights that come with the package",
    measure,
    ("seconds",),
    protocol="the released weights, in batches of 16 on one core",
    illustrate=illustrate,
    sections=sections,
)
