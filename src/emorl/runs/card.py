"""What is known of weights that are given to others: in the header of their file, and as a page to read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from emorl.data import FOLDER, DataConfig
from emorl.errors import UserError, first_line
from emorl.evaluation.metrics import METRICS, renamed
from emorl.files import MARK, open_regular
from emorl.models import kind_of
from emorl.runs.config import RunConfig

# Of what is not text in the header, and so written as JSON: its name and type.
VALUES: dict[str, Any] = {
    "steps": int,
    "seed": int,
    "cpu_minutes": int | float | None,
    "scores": dict,
    "environment": dict,
}
TEXTS = ("name", "model", "data", "version")  # what is text
USED_WITH = ("num_slots", "num_steps", "tries", "seeds", "split")  # of scores: how they came about

PAGE = """---
library_name: emorl
pipeline_tag: image-segmentation
tags:
- object-centric-learning
- unsupervised-segmentation
---

# {name}

{title} with {slots} slots: takes images of {size} x {size} pixels apart into objects, and learns that without labels.

| | |
|---|---|
| learned from | {data} |
| training | {training} |
| made with | emorl {version}, PyTorch {torch} |

## Use it

```python
import emorl

model = emorl.from_pretrained("FOLDER")  # where this file is
found = emorl.decompose("photo.jpg", model)
found.objects()  # place, size, colour and latents of each object
```

{again}

## Scores

{scores}

## Limits

A model has learned from one kind of picture. Of another kind it explains little, and its objects mean nothing:
`found.explained` says how much of each picture it explains, and `emorl.decompose` warns below one half.

<!-- {mark} -->
"""


REPEATED = (
    "`config.json` has every setting, of the training too: `emorl train config.json --out RUN` repeats it (on images "
    "of one's own, with `--data.path FOLDER`)."
)


def header_of(card: Mapping[str, Any]) -> dict[str, str]:
    """Returns a card as the metadata of a .safetensors file, which are texts by name."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in card.items()}
    return {"format": "pt", "software": MARK, **texts}


def read_header(path: Path) -> dict[str, Any]:
    """Returns the card in a .safetensors file. Raises UserError if it cannot be read or has none."""
    open_regular(path).close()  # a pipe would never end
    try:
        with safe_open(path, "pt") as file:
            texts = dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise UserError(f"{path} holds no readable weights ({first_line(error)}).") from None
    card: dict[str, Any] = {name: texts[name] for name in TEXTS if name in texts}
    for name, kind in VALUES.items():
        try:
            card[name] = json.loads(texts[name])
        except (KeyError, ValueError, RecursionError):
            card[name] = ...  # is of no type that fits
        if not isinstance(card[name], kind) or isinstance(card[name], bool):
            raise UserError(
                f"{path} does not say what it is: its {name!r} is missing or wrong. emorl.save_pretrained writes such "
                "files."
            )
    return card


def numbers_in(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the means, and how they came about: not the value of each image, nor what is not finite."""
    return {
        name: value
        for name, value in scores.items()
        if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
    }


def page_of(card: Mapping[str, Any], config: RunConfig, title: str) -> str:
    """Returns the card as Markdown, for a README."""
    minutes = card["cpu_minutes"]
    took = "" if minutes is None else f", {minutes:.0f} minutes of processor time"
    return PAGE.format(
        name=one_line(card["name"]),
        title=f"{title} (`{kind_of(config.model)}`)",
        slots=config.model.num_slots,
        size=config.model.image_size,
        data=one_line(card["data"]),
        training=f"{card['steps']} steps, seed {card['seed']}{took}" if card["steps"] else "not recorded",
        again=REPEATED if card["steps"] else "`config.json` has the settings of the model.",
        version=one_line(card["environment"].get("version") or card["version"]),
        torch=one_line(card["environment"].get("torch", "unknown")),
        scores=score_table(card["scores"]),
        mark=MARK,
    )


def score_table(scores: Mapping[str, Any]) -> str:
    """Returns the scores that METRICS shows first, as a table, and how they came about."""
    values: dict[str, Any] = {**renamed(dict(scores))}
    rows = [
        f"| {metric.heading} | {metric.text(values[name])} | {metric.meaning} |"
        for name, metric in METRICS.items()
        if metric.shown == "first" and type(values.get(name)) in (int, float)
    ]
    if not rows:
        return "Not scored yet: `emorl evaluate FOLDER`."
    how = ", ".join(
        f"{name} {one_line(values[name])}" for name in USED_WITH if values.get(name) not in (None, "")
    )
    of = f"Means over {values.get('images', 'some')} held-out images ({how})."
    return "\n".join(["| score | value | meaning |", "|---|---|---|", *rows, "", of])


def one_line(text: object) -> str:
    """Returns a text so that it stays in its cell of a table."""
    return " ".join(str(text).split()).replace("|", "/")[:200]


def data_of(data: DataConfig) -> str:
    """Returns in words what a run has learned from."""
    if data.name == FOLDER:
        return f"a folder of images, made {data.image_size} x {data.image_size} ({data.fit})"
    return f"{data.name}, scenes 0 to {(data.train_size or 0) - 1} of seed {data.seed}"
