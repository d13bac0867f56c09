"""Results: the one format of all measurements, their provenance, and whether their settings are still today's."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.files import check_output, make_directory, read_json, write_json
from emorl.runs.config import RunConfig
from emorl.runs.resume import FREE

BEFORE_PROVENANCE: Mapping[str, Any] = {"commit": None}  # the stamp of results that were recorded without one
# Settings that came later, and what runs did before: these are still the same runs, in the same directories.
LATER: Mapping[str, Any] = {"data.fit": "crop", "data.skip_damaged": False, "train.start_from": None}


@dataclass(frozen=True)
class Row:
    """What was measured of one thing, once: one label and seed."""

    label: str
    values: Mapping[str, Any]
    seed: int = 0
    scenes: str = ""  # what was scored: a split of the data, and how if not as configured
    steps: int | None = None  # of the training behind it
    cpu_minutes: float | None = None  # of that training
    config: Mapping[str, Any] | None = None  # of that training; None: not trained, or not recorded
    curve: Sequence[Mapping[str, float]] = ()  # validation scores over the training
    stamp: Mapping[str, Any] | None = None  # where it came from, if not where the whole result did


@dataclass(frozen=True)
class Result:
    """All rows of an experiment."""

    experiment: str
    rows: Sequence[Row]
    stamp: Mapping[str, Any] = field(default_factory=lambda: BEFORE_PROVENANCE)
    scale: str = "cpu"
    settings: Mapping[str, Any] = field(default_factory=dict)  # what else it depends on
    # Why it is kept although its settings are no longer today's; empty: it claims to be current.
    outdated: str = ""

    @staticmethod
    def read(path: Path) -> Result:
        """The result in the file `path`; configs, which rows share, stand apart there."""
        values = read_json(path)
        try:
            configs = values.pop("configs", {})
            rows = [
                Row(**(row | {"config": configs[row["config"]] if row.get("config") else None}))
                for row in values.pop("rows")
            ]
            result = Result(rows=rows, **values)
            result.check()
            return result
        except (KeyError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{path} is not a result of `emorl reproduce` ({reason}).") from None

    def check(self) -> None:
        """Raises TypeError if something is not of the type it should be: a file may hold anything."""
        for what in ("experiment", "scale", "outdated"):
            if not isinstance(getattr(self, what), str):
                raise TypeError(f"{what} is no text")
        for what in ("stamp", "settings"):
            if not isinstance(getattr(self, what), Mapping):
                raise TypeError(f"{what} is no object")
        for row in self.rows:
            if not isinstance(row.label, str) or not isinstance(row.values, Mapping):
                raise TypeError("a row lacks a label or values")
            if not isinstance(row.stamp, Mapping | None) or not isinstance(row.config, Mapping | None):
                raise TypeError(f"the stamp or the config of {row.label!r} is no object")
            if row.steps is not None and type(row.steps) is not int:
                raise TypeError(f"the steps of {row.label!r} are no whole number")

    def write(self, path: Path) -> None:
        """Writes it as JSON; what a row does not have is left out."""
        configs: dict[str, Any] = {}
        rows = []
        for row in self.rows:
            values = {name: value for name, value in vars(row).items() if value not in (None, "", ())}
            if row.config is not None:
                values["config"] = digest(row.config)[:16]
                configs[values["config"]] = row.config
            if row.stamp == self.stamp:
                values.pop("stamp", None)
            rows.append(values | {"seed": row.seed})
        head = {name: value for name, value in vars(self).items() if name != "rows" and value not in ("", {})}
        make_directory(path.parent)
        write_json(path, {**head, "rows": rows, **({"configs": configs} if configs else {})})

    def stamp_of(self, row: Row) -> Mapping[str, Any]:
        """Where `row` came from."""
        return row.stamp if row.stamp is not None else self.stamp

    def has_provenance(self, row: Row) -> bool:
        """Whether it is known which commit has measured `row`."""
        return self.stamp_of(row).get("commit") is not None


def check_result(path: Path) -> None:
    """Raises UserError if to write the result `path`, and pictures named after it, would destroy something not ours.

    Pictures beside a result are its own, those of versions that did not mark them too.
    """
    if os.path.lexists(path):
        Result.read(path)
        return
    for picture in [path.with_suffix(".png"), *path.parent.glob(f"{glob.escape(path.stem)}-*.png")]:
        check_output(picture)


def digest(values: Any) -> str:
    """Returns the SHA-256 of `values` as JSON, in hexadecimal; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def computed(config: RunConfig) -> dict[str, Any]:
    """Returns the settings that change what is computed, except the seed."""
    settings = config.flat()
    left_out = {*FREE, "train.seed", *(name for name, usual in LATER.items() if settings[name] == usual)}
    return {name: value for name, value in settings.items() if name not in left_out}


def identity(config: RunConfig) -> str:
    """Returns a text that is equal for trainings that compute the same, whatever their seed."""
    return digest(computed(config))


def stale(result: Result, wanted: Mapping[str, RunConfig]) -> list[str]:
    """Labels of rows whose recorded settings are not those of the run `wanted` for them today."""
    found = []
    for row in result.rows:
        today = wanted.get(run_label(row.label, wanted) or "")
        if row.config is not None and (
            today is None or identity(RunConfig.from_dict(row.config)) != identity(today)
        ):
            found.append(row.label)
    return list(dict.fromkeys(found))


def run_label(label: str, labels: Iterable[str]) -> str | None:
    """The label of the run that a row belongs to: its own, or the longest that its own continues after a comma."""
    found = [one for one in labels if label == one or label.startswith(f"{one},")]
    return max(found, key=len, default=None)


def merged(rows: Sequence[Row], earlier: Result, labels: Sequence[str]) -> list[Row]:
    """`rows`, and what `earlier` has of other runs among `labels`, in their order. Kept rows keep their stamp."""
    measured = {run_label(row.label, labels) for row in rows}
    kept = [
        replace(row, stamp=earlier.stamp_of(row))
        for row in earlier.rows
        if run_label(row.label, labels) not in {None, *measured}
    ]
    order = {label: place for place, label in enumerate(labels)}
    return sorted([*rows, *kept], key=lambda row: order.get(run_label(row.label, labels) or "", -1))
