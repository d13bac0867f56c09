"""What an experiment is: a table or figure of the paper or of ours, with what it trains, measures and draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emorl.data import Split
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.evaluation.metrics import METRICS, Metric, metric
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import ScaleName, Wanted
from emorl.plots.lines import Points
from emorl.report.paper import Published
from emorl.runs.run import Run

Values = dict[str, Any]  # score -> number
BLENDER = "clevr_blender_24.npz"  # a published file: scenes of CLEVR's own files, rendered by Blender


@dataclass(frozen=True)
class Job:
    """What there is to measure, and what is known already."""

    trained: Sequence[Run] = ()  # each with the label of its row
    scale: ScaleName = "cpu"
    files: Path | None = None  # folder of published files, for experiments that compare with them
    folder: Path = Path()  # where pictures, and trainings that the runner does not know of, are put
    done: Sequence[Row] = ()  # rows that an interrupted measurement has left
    say: Callable[[str], None] = lambda message: None

    def published_file(self, name: str, experiment: str) -> Path:
        """Where a published file is; raises UserError if `--files` does not hold it."""
        if self.files is None or not (self.files / name).exists():
            raise UserError(f"Say where {name} is: emorl reproduce {experiment} --files FOLDER")
        return self.files / name


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    title: str
    # Yields the rows one by one. None: a record of the past that cannot be measured again.
    measure: Callable[[Job], Iterator[Row]] | None
    scores: tuple[str, ...] = ()  # the columns of its table, by their names in METRICS or in `metrics`
    paper: str = ""  # what the paper found
    protocol: str | Callable[[ScaleName], str] = ""  # how ours is made
    runs: Callable[[ScaleName], list[Wanted]] = lambda scale: []  # what is trained for it
    # Whether released weights of the same training will do: what it measures does not need the log of the training.
    from_weights: bool = False
    # Draws trained runs into a picture with this path, or into several whose names begin like it.
    draw: Callable[[Sequence[Run], Sequence[Row], Path], None] | None = None
    # Draws from the result alone, into the folder of the documents' pictures.
    illustrate: Callable[[Result, Path], None] | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)  # of scores that METRICS does not have
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)  # label -> score -> value
    # label -> training steps behind the paper's values
    published_steps: Mapping[str, int] = field(default_factory=dict)
    # Parts of pages, "docs/page.md#part" -> Markdown. None: docs/reproduction.md#name, in the usual form.
    sections: Callable[[Result], Mapping[str, str]] | None = None

    def how(self, scale: ScaleName) -> str:
        """The protocol at a scale."""
        return self.protocol if isinstance(self.protocol, str) else self.protocol(scale)

    def metric(self, score: str) -> Metric:
        """What a score of this experiment is called and how it is written."""
        return self.metrics.get(score) or metric(score)


def row_of(run: Run, values: Values, *, scenes: str, label: str = "", **more: Any) -> Row:
    """A row of the result. `scenes` says what was scored: a split, and how if not as configured."""
    minutes = run.cpu_minutes
    return Row(
        label or run.label,
        values,
        seed=run.seed,
        scenes=scenes,
        steps=run.steps_in_all,
        cpu_minutes=None if minutes is None else round(minutes, 2),
        config=run.config.without_path().to_dict(),
        **more,
    )


def means(scores: Scores, *names: str) -> Values:
    """The means of those of `names` that this kind of model has."""
    return {name: scores.mean(name) for name in names if name in scores.values}


def scored(run: Run, split: Split, *names: str) -> Row:
    """A row with the scores `names` of a run on all scenes of a split."""
    return row_of(run, means(evaluate(run.model, run.scenes(split)), *names), scenes=split)


def scoring(split: Split, *names: str) -> Callable[[Job], Iterator[Row]]:
    """Returns a `measure` that yields the scores `names` of each run on all scenes of a split."""

    def measure(job: Job) -> Iterator[Row]:
        for run in job.trained:
            yield scored(run, split, *names)

    return measure


def series(run: Run, *names: str) -> Points:
    """The sum of the logged values `names` against the step."""
    return [
        (line["step"] + 1, sum(line[name] for name in names))
        for line in run.metrics
        if all(line.get(name) is not None for name in names)
    ]


def titled(name: str, **changes: Any) -> Metric:
    """Returns the entry of METRICS for `name` with some fields replaced, such as its title."""
    return replace(METRICS[name], **changes)
