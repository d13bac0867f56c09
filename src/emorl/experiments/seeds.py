"""Seeds: the Tetrominoes preset of EfficientMORL with five seeds, in full. For the page about training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, means, row_of, titled
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import SCALES, ScaleName, Wanted, wanted
from emorl.experiments.tables import count, mean_and_sd, table
from emorl.plots.files import save_chart
from emorl.plots.lines import score_chart
from emorl.report.paper import PUBLISHED_ABLATIONS, PUBLISHED_ARI
from emorl.runs.presets import PRESETS

SEEDS = (0, 1, 2, 3, 4)
FOUND = 0.9  # the ARI at which objects count as found
OTHERS = {  # the same scores under other conditions
    "ari_without_refinement": titled("ari", title="ARI at I = 0"),
    "ari_of_four_tries": titled("ari", title="ARI, best of 4 tries"),
    "mse_of_four_tries": titled("mse", title="MSE, best of 4 tries"),
}
COLUMNS = ("ari", "ari_without_refinement", "mse", "kl", "ari_of_four_tries", "mse_of_four_tries")
PAPER = {
    "ari": PUBLISHED_ARI["efficient-morl", "tetrominoes"],
    "mse": PUBLISHED_ABLATIONS["full", "tetrominoes"]["mse"],
    "kl": PUBLISHED_ABLATIONS["full", "tetrominoes"]["kl"],
}


def runs(scale: ScaleName) -> list[Wanted]:
    """Returns the trainings: one preset at each scale, with five seeds."""
    preset = PRESETS[SCALES[scale].presets["tetrominoes"]]
    return [wanted(f"seed {seed}", SCALES[scale].everywhere, preset, seed) for seed in SEEDS]


def measure(job: Job) -> Iterator[Row]:
    """Scores on the held-out scenes: a posterior sample, no refinement, the best of four tries, and the means."""
    for run in job.trained:
        score = partial(evaluate, run.model, run.scenes("test"))
        refined, best, at_means = score(), score(tries=4), score(means=True)
        values = {
            **means(refined, "ari", "mse", "kl", "kl_hierarchical", "slots_used"),
            "ari_without_refinement": score(num_steps=0).mean("ari"),
            "ari_of_four_tries": best.mean("ari"),
            "mse_of_four_tries": best.mean("mse"),
            "ari_at_means": at_means.mean("ari"),
            "mse_at_means": at_means.mean("mse"),
            "images": refined.settings["images"],
            "skipped": run.metrics[-1]["skipped"],
            "wall_clock_minutes": round(run.metrics[-1]["seconds"] / 60, 1),
        }
        curve = run.curve("ari", "mse", "kl_hierarchical", "kl", "slots_used")
        yield row_of(run, values, scenes="test", curve=curve)


def sections(result: Result) -> dict[str, str]:
    """Every seed, their mean, and the paper's row."""
    metrics = {name: OTHERS.get(name) or METRICS[name] for name in COLUMNS}
    headings = [one.heading for one in metrics.values()]
    head = ["seed", "steps", *headings, "CPU minutes", f"until ARI {FOUND:.2f}"]
    lines = []
    for row in result.rows:
        first = next((point["cpu_minutes"] for point in row.curve if point["ari"] >= FOUND), None)
        cost = [f"{row.cpu_minutes:.0f}", "" if first is None else f"{first:.0f}"]
        scores = [one.text(row.values[name]) for name, one in metrics.items()]
        lines.append([str(row.seed), count(row.steps), *scores, *cost])
    together = [
        one.text(*mean_and_sd([row.values[name] for row in result.rows])) for name, one in metrics.items()
    ]
    lines.append(["**mean ± sd**", "", *together, "", ""])
    theirs = [
        metrics[name].text(PAPER[name].mean, PAPER[name].sd) if name in PAPER else "" for name in COLUMNS
    ]
    lines.append(["paper, 5 seeds", "200 000", *theirs, "five hours of two GPUs", ""])
    return {"docs/tutorials/train.md#seeds": table(head, lines)}


def illustrate(result: Result, pictures: Path) -> None:
    """The learning curves of all seeds."""
    curves = {f"seed {row.seed}": row.curve for row in result.rows}
    goals = {name: value.mean for name, value in PAPER.items()}
    names = ("ari", "mse", "kl")
    chart = score_chart(
        curves, label="CPU minutes", x="cpu_minutes", names=names, log=("mse", "kl"), goals=goals
    )
    save_chart(chart, pictures / "seeds.png")


EXPERIMENT = Experiment(
    "Five seeds of the preset for Tetrominoes",
    measure,
    COLUMNS,
    paper="ARI 0.982 ± 0.018 over five seeds, after 200 000 steps on two GPUs.",
    protocol="efficient-morl/tetrominoes-plain in full, five seeds, one core each",
    runs=runs,
    illustrate=illustrate,
    metrics=OTHERS,
    sections=sections,
)
