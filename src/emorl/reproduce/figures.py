"""The paper's figures: what is measured for each, and how it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from emorl.data import SceneDataset, open_dataset
from emorl.evaluation.activeness import activeness, latent_ranges
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.leakage import leakage
from emorl.evaluation.sweeps import sweep_steps
from emorl.plots.bands import Points, band_figure, smoothed
from emorl.plots.edits import TITLES, edit_row
from emorl.plots.panels import Panels
from emorl.plots.pictures import save_picture, scenes_apart, stacked
from emorl.plots.posteriors import posteriors
from emorl.plots.style import save_chart
from emorl.plots.sweeps import sweep_figure
from emorl.plots.traversals import traversal_grid, traverse
from emorl.probability import noise_from, noise_per_image
from emorl.reproduce.trained import Row, Trained

EDITED = 4  # scenes with an edit in the picture of appendix B
TEST_STEPS = range(7)  # I at test time
# Scenes with more objects than a model has learned from, and the slots to give it then.
CROWDED = {"clevr6": ("clevr10", 11), "tetrominoes": ("tetrominoes-crowded", 7)}


def series(one: Trained, *names: str) -> Points:
    """The sum of the logged values `names` against the step."""
    return [
        (record["step"] + 1, sum(record[name] for name in names))
        for record in one.metrics
        if all(name in record for name in names)
    ]


def grouped(trained: Sequence[Trained], *names: str, smooth: bool = True) -> dict[str, list[Points]]:
    """The curves of each label's seeds."""
    curves: dict[str, list[Points]] = {}
    for one in trained:
        points = series(one, *names)
        if points:
            curves.setdefault(one.label, []).append(smoothed(points) if smooth else points)
    return curves


# Figure 2: the loss with I = 0, 1, 3. Eq. 8 sums I + 1 losses, so what is compared is that of the last step.


def final_loss(trained: Sequence[Trained]) -> list[Row]:
    rows = []
    for one in trained:
        elbo = [value for _, value in series(one, "nll", "kl_refined")]
        late = elbo[-max(1, len(elbo) // 20) :]
        scores = evaluate(one.model, one.scenes("validation"))
        rows.append(
            one.row(negative_elbo=sum(late) / len(late), ari=scores.mean("ari"), mse=scores.mean("mse"))
        )
    return rows


def draw_loss(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    panels = {
        "negative ELBO of the last step": grouped(trained, "nll", "kl_refined"),
        "NLL of the last step": grouped(trained, "nll"),
        "ARI on validation scenes": grouped(trained, "validation_ari", smooth=False),
    }
    save_chart(band_figure(panels), path)


# Figure 3: the KL, and the norms of the refinement updates.


def update_norms(trained: Sequence[Trained]) -> list[Row]:
    """KL at its height and at the end; what is left at the end of the height of each update, first tenth left out."""
    rows = []
    for one in trained:
        kl = [value for _, value in smoothed(series(one, "kl_refined"))]
        row = one.row(kl_peak=max(kl), kl_end=kl[-1])
        for i in (1, 2, 3):
            norms = [value for _, value in smoothed(series(one, f"update_{i}"))][len(kl) // 10 :]
            row[f"update_{i}_left"] = norms[-1] / max(norms)
        rows.append(row)
    return rows


def draw_norms(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    updates = {f"i = {i}": [smoothed(series(one, f"update_{i}")) for one in trained] for i in (1, 2, 3)}
    panels = {
        "L2 norm of the refinement updates": updates,
        "KL of the refined posterior (nats)": {
            "refined": [smoothed(series(one, "kl_refined")) for one in trained],
            "all layers of stage 1": [smoothed(series(one, "kl_hierarchical")) for one in trained],
        },
    }
    figure = band_figure(panels)
    figure.axes[1].legend(fontsize=8.5, frameon=False)
    save_chart(figure, path)


# Figure 7: other numbers of refinements, and of objects, than in training.


def at_test_time(trained: Sequence[Trained]) -> list[Row]:
    rows = []
    for one in trained:
        for scenes, K, where in settings_of(one):
            for found in sweep_steps(one.model, scenes, TEST_STEPS, num_slots=K):
                scores = {name: found[name] for name in ("ari", "mse", "kl_hierarchical", "kl_refined")}
                label = f"{one.label}, {where}, I={found['value']}"
                rows.append({**one.row(**scores), "label": label, "steps": found["value"]})
    return rows


def settings_of(one: Trained) -> Iterator[tuple[SceneDataset, int | None, str]]:
    """Scenes, K and a name for them: those of training, and crowded ones where there are any."""
    yield one.scenes("test"), None, "as trained"
    name = one.run.data.name.removesuffix("-fast")
    if name in CROWDED:
        crowded, K = CROWDED[name]
        yield open_dataset(replace(one.run.data, name=crowded, path=None), "test"), K, f"more objects, K={K}"


def draw_at_test_time(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    curves: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        label = row["label"].rsplit(",", 1)[0]
        curves.setdefault(label, []).append({"value": row["steps"], **row})
    means = {label: mean_by_value(points) for label, points in curves.items()}
    save_chart(sweep_figure(means, label="I at test time"), path)


# Figure 8: how many layers stage 1 has.


def draw_layers(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    by_seed = [{"value": one.run.model.num_layers, **row} for one, row in zip(trained, rows, strict=True)]
    save_chart(sweep_figure({"": mean_by_value(by_seed)}, label="L"), path)


def mean_by_value(points: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Means over seeds, and half the distance between the extremes as error."""
    rows = []
    for value in sorted({point["value"] for point in points}):
        mine = [point for point in points if point["value"] == value]
        row: dict[str, float] = {"value": value}
        for name in ("ari", "mse", "kl_hierarchical", "kl_refined"):
            numbers = [point[name] for point in mine]
            row[name] = sum(numbers) / len(numbers)
            row[f"{name}_error"] = (max(numbers) - min(numbers)) / 2
        rows.append(row)
    return rows


# Figures 5, 6, 9 and of appendix B: pictures of models.


def scored(trained: Sequence[Trained]) -> list[Row]:
    return [one.row(ari=evaluate(one.model, one.scenes("test")).mean("ari")) for one in trained]


def draw_decompositions(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    """Four scenes of each data set, by the first seed."""
    first: dict[str, Trained] = {}
    for one in trained:
        first.setdefault(one.label, one)
    pictures = [
        scenes_apart(one.model, one.scenes("test"), indices=range(4), sample=True) for one in first.values()
    ]
    save_picture(stacked(pictures), path)


def draw_posteriors(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    save_picture(posteriors(trained[0].model, trained[0].scenes("test")), path)


def active_dimensions(trained: Sequence[Trained]) -> list[Row]:
    """How many dimensions of a slot change the image."""
    rows = []
    for one in trained:
        found = activeness(one.model, one.scenes("test"), images=100)
        rows.append(
            one.row(active=len(found.active), dimensions=len(found.values))
            | {"activeness": found.values.tolist()}
        )
    return rows


def draw_traversals(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    model, scenes = trained[0].model, trained[0].scenes("test")
    order = sorted(range(rows[0]["dimensions"]), key=lambda d: -rows[0]["activeness"][d])
    with noise_from(noise_per_image([0])):
        found = model.decompose(scenes[0].image[None])
    save_picture(traversal_grid(traverse(model, found, latent_ranges(model, scenes), order[:8])), path)


def edits(trained: Sequence[Trained]) -> list[Row]:
    """How much of the image changes that is not the edited slot's, and how much of that the other slots' parts."""
    rows = []
    for one in trained:
        scenes = one.scenes("test")
        found = leakage(one.model, scenes)
        scores = {"leakage": found.image, "leakage_of_others": found.others, "edits": len(found.edits)}
        rows.append(one.row(ari=evaluate(one.model, scenes).mean("ari"), **scores))
    return rows


def draw_edits(trained: Sequence[Trained], rows: Sequence[Row], path: Path) -> None:
    """A typical edit of each of a few scenes, which are the same for all models."""
    labels, panels = [], []
    for one in trained:
        scenes = one.scenes("test")
        found = leakage(one.model, scenes, images=EDITED)
        for edit in filter(None, map(found.typical, range(EDITED))):
            panels.append(edit_row(one.model, scenes, edit))
            labels.append(f"{one.label.split(',')[0]}: {edit.leaked:.0%}")
    save_picture(Panels(panels, labels, TITLES).drawn(), path)
