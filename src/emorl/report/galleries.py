"""The sections of a report that show a model at work: scenes taken apart, and inference step by step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from torch import Tensor

from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.metrics import metric
from emorl.panels import Panels, Pixels, segmentation_pixels, to_pixels
from emorl.plots.dots import scatter, sorted_scores
from emorl.plots.scenes import posterior_panels, scene_panels, scene_row, worst_by, worst_scenes
from emorl.report.groups import Extent, Group, Scored
from emorl.report.html import Block, Charts, Part, Section, drawing, pictures
from emorl.report.touch import touch

TOUCHED = (
    "Point at a slot, in a picture or by its name, to light up its mask; the slider goes from step to step."
)


def headed(groups: Sequence[Group], parts: Sequence[Sequence[Block]]) -> list[Part]:
    """A part for the first run of each group, under its name if there are several runs."""
    is_alone = len(groups) == 1 and len(groups[0].members) == 1
    titles = ["" if is_alone else group.first.run.label for group in groups]
    return [Part(blocks, title) for blocks, title in zip(parts, titles, strict=True)]


def scenes_section(groups: Sequence[Group], extent: Extent) -> Section:
    """The first scenes and the worst, of the first run of each group; of several runs, the same scenes by each."""
    parts = headed(groups, [scene_pictures(group.first, extent) for group in groups])
    members = [one for group in groups for one in group.members]
    comparable = [one for one in members if one.sees_the_same_as(members[0])][:6]
    if len(comparable) > 1:
        alt = "The same scenes taken apart by each run"
        caption = (
            "The same scenes by each run: its reconstruction, and which slot owns each pixel of an object."
        )
        parts = [Part([pictures(side_by_side(comparable, extent.scenes), alt=alt, caption=caption)]), *parts]
    prose = "Held-out scenes as they were scored, one inference each. Slots are drawn where their masks are."
    return Section("scenes", "Scenes taken apart", prose, parts)


def scene_pictures(one: Scored, extent: Extent) -> list[Block]:
    """The first scenes, the worst ones, and charts of the scores scene by scene."""
    scores = one.scores
    count = min(extent.scenes, scores.settings["images"])
    name = worst_by(scores)
    values, quantity = scores.of_images(name), metric(name)

    def drawn(indices: Sequence[int], **words: str) -> Block:
        labels = [f"{quantity.title} {quantity.text(float(values[index]))}" for index in indices]
        panels = scene_panels(one.run.model, one.scenes, indices=indices, labels=labels, sample=True)
        return pictures(panels, span=6 if len(panels.titles) <= 10 else 12, **words)

    return [
        drawn(
            range(count),
            title="The first scenes",
            alt=f"The first {count} scenes taken apart into slots",
            caption="From left: the image, what its slots rebuild, the slot that owns each pixel, and each slot alone.",
        ),
        drawn(
            worst_scenes(scores, count),
            title="The worst",
            alt=f"The {count} scenes with the worst {quantity.title}",
            caption=f"Of {scores.settings['images']} scenes, those with the worst {quantity.title}.",
        ),
        score_charts(one),
    ]


def score_charts(one: Scored) -> Charts:
    """Scores scene by scene: a mean can hide a few failures."""
    names = [name for name in ("ari", "mse") if name in one.scores.values]
    values: dict[str, list[float]] = {name: one.scores.of_images(name).tolist() for name in names}
    drawings = [
        drawing(sorted_scores(values[name], name), alt=f"{metric(name).title} of every scene, in order")
        for name in names
    ]
    if len(names) == 2:
        drawings.append(drawing(scatter(values), alt="ARI and MSE of every scene"))
    return Charts(drawings, f"Scene by scene: {failures(one.scores.of_images(names[0]), names[0])}")


def failures(values: Tensor, name: str) -> str:
    """How many scenes went wrong, in words."""
    if name != "ari":
        return f"half of the {len(values)} have an MSE below {metric(name).text(float(values.median()))}."
    return f"{int((values < 0.9).sum())} of {len(values)} have an ARI below 0.9."


def side_by_side(members: Sequence[Scored], count: int) -> Panels:
    """A row for each scene: image, true objects, then reconstruction and owners of the objects' pixels by each run."""
    scenes = members[0].scenes
    rows: list[list[Pixels]] = []
    for index in range(min(count, len(scenes))):
        scene = scenes[index]
        row = scene_row(scene) if scenes.info.has_masks else [to_pixels(scene.image)]
        for one in members:
            found = decompose_scene(one.run.model, scenes, index, sample=True)
            owners = found.segmentation[0].cpu() + 1
            if scenes.info.has_masks:
                owners = owners * (scene.segmentation > 0)
            row += [to_pixels(found.image[0]), segmentation_pixels(owners, has_background=True)]
        rows.append(row)
    truth = ["image", "objects"] if scenes.info.has_masks else ["image"]
    titles = [*truth, *chain(*((one.run.label, "") for one in members))]
    return Panels(rows, titles=titles)


def inference_section(groups: Sequence[Group]) -> Section:
    """One scene of each group, inference step by step."""
    caption = (
        "Below the scene, a row for each step. Attention: the slot that claims each place. Under each slot, the image "
        "times its attention, or times its mask where a step does not attend."
    )
    parts: list[list[Block]] = []
    for group in groups:
        scene = clear_scene(group.first)
        run, scenes = group.first.run, group.first.scenes
        panels = posterior_panels(run.model, scenes, scene=scene)
        parts.append(
            [
                touch(run.model, scenes, scene, title="To touch", caption=TOUCHED),
                pictures(panels, alt=f"Inference of scene {scene}, step by step", caption=caption),
            ]
        )
    prose = "What the model believes after each step, from its first guess to the answer."
    return Section("inference", "Inference, step by step", prose, headed(groups, parts))


def clear_scene(one: Scored) -> int:
    """Of the first scenes, the one that is reconstructed best: what is shown should not be an accident."""
    return int(one.scores.of_images("mse")[:16].argmin())
