"""Activeness, sweeps and their command, with a model whose answers are known, and with released weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from conftest import Run
from emorl import Decomposition, Model, Outcome, UserError, load, open_dataset
from emorl.data import DATASETS, DataConfig
from emorl.data.base import Arrays, DatasetInfo, SceneDataset, SceneRange
from emorl.evaluation.activeness import activeness, latent_ranges
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.leakage import Edit, Leakage, leakage
from emorl.evaluation.sweeps import by_objects, stability, sweep_slots, sweep_steps
from emorl.plots.edits import edit_row


@dataclass(frozen=True)
class KnownConfig:
    image_size: int = 4
    num_slots: int = 2


class Known(Model):
    """Slots of three numbers: the first is a brightness, the second is ignored, the third is the mask's logit."""

    Config = KnownConfig

    def __init__(self) -> None:
        super().__init__()
        self.config = KnownConfig()
        self.unused = torch.nn.Parameter(torch.zeros(()))

    def forward(
        self, x: Tensor, *, num_slots: int | None = None, num_steps: int | None = None, trace: bool = False
    ) -> Outcome:
        K = num_slots or 2
        brightness = x.mean(dim=(1, 2, 3))[:, None].expand(-1, K)
        number = torch.arange(K).expand(len(x), -1)
        slots = torch.stack([brightness, 10.0 * number, torch.zeros_like(brightness)], dim=-1)
        step = self.decode(slots)
        return Outcome(x.mean(), {"nll": torch.zeros(len(x))}, (step,))

    def decode(self, slots: Tensor) -> Decomposition:
        logits = slots[..., 2, None, None, None].expand(-1, -1, 1, 4, 4)
        components = slots[..., 0, None, None, None].expand(-1, -1, 3, 4, 4)
        return Decomposition(logits.softmax(dim=1), components, slots)


class Greys(SceneDataset):
    """Scene i is of grey level 51 i and has i objects of one pixel."""

    info = DatasetInfo("greys", 4, 4, {})

    def __len__(self) -> int:
        return 4

    def arrays(self, index: int) -> Arrays:
        ids = torch.zeros(16, dtype=torch.uint8)
        ids[:index] = torch.arange(1, index + 1)
        return {
            "image": torch.full((4, 4, 3), 51 * index, dtype=torch.uint8).numpy(),
            "segmentation": ids.reshape(4, 4).numpy(),
        }


def test_ranges_are_those_of_the_slots() -> None:
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.6, 10.0, 0.0]])
    torch.testing.assert_close(latent_ranges(Known(), Greys()), expected)


def test_activeness_of_a_known_decoder() -> None:
    seen: list[tuple[int, int]] = []
    found = activeness(Known(), Greys(), progress=lambda done, total: seen.append((done, total)))
    # One of two slots with masks of one half goes from 0 to 0.6 in six steps; dimension 2 has no range to go through.
    variance = torch.linspace(0, 0.6, 6).var() / 4
    torch.testing.assert_close(found.values, torch.tensor([float(variance), 0.0, 0.0]))
    assert found.active == [0]
    assert found.order[0] == 0
    assert seen[-1] == (4, 4)


class Halves(Known):
    """Each slot owns one half of the image for good."""

    def decode(self, slots: Tensor) -> Decomposition:
        whole = super().decode(slots)
        masks = torch.zeros_like(whole.masks)
        masks[:, 0, :, :, :2], masks[:, 1, :, :, 2:] = 1, 1
        return Decomposition(masks, whole.components, slots)


def test_an_edit_leaks_where_slots_share_pixels_and_nowhere_else() -> None:
    clean = leakage(Halves(), Greys())
    assert (clean.image, clean.others) == (0, 0)
    shared = leakage(Known(), Greys())
    assert shared.image == pytest.approx(1)  # both slots own every pixel by half
    assert shared.others == pytest.approx(0, abs=1e-6)  # but only one of them has changed


def test_leakage_without_an_edit_that_does_something() -> None:
    assert leakage(Known(), SceneRange(Greys(), 0, 1)).edits == ()


def test_edits_of_released_weights_stay_where_the_object_is() -> None:
    scenes = open_dataset(DataConfig("tetrominoes"), "test")
    model = load("efficient-morl/tetrominoes")
    found = leakage(model, scenes, images=3)
    assert len(found.edits) > 20
    assert found.others < found.image < 0.15
    edit = found.typical(1)
    assert edit is not None
    image, rebuilt, _, after, change, *_ = (panel.astype(float) for panel in edit_row(model, scenes, edit))
    assert abs(image - rebuilt).mean() < 15
    assert change[..., 0] == pytest.approx(3 * abs(after - rebuilt).mean(axis=2).clip(0, 85), abs=6)


def test_strong_edits_count_most_and_are_shown() -> None:
    weak = [Edit(0, 0, d, 1.0, inside=0.01, outside=0.01, others=0.0) for d in range(18)]
    strong = [Edit(0, 0, 20, 1.0, inside=1.0, outside=leaked, others=0.0) for leaked in (0.3, 0.1, 0.2)]
    alone = Edit(1, 0, 0, 1.0, inside=0.8, outside=0.0, others=0.1)
    found = Leakage((*weak, *strong, alone))
    assert [found.typical(0), found.typical(1), found.typical(2)] == [strong[2], alone, None]
    assert found.image == pytest.approx((0.18 + 0.6) / (0.18 + 3 + 0.8))
    assert found.others == pytest.approx(0.1 / (0.18 + 3 + 0.8))


def test_released_weights_use_some_dimensions_and_leave_others() -> None:
    scenes = open_dataset(DataConfig("tetrominoes"), "test")
    found = activeness(load("efficient-morl/tetrominoes"), scenes, images=2)
    assert 8 <= len(found.active) <= 28
    idle = found.values.sort().values[:8]
    assert idle.max() < 1e-3 * found.values.max()  # a low KL has switched these off


def test_sweeps_are_evaluations() -> None:
    model, scenes = load("efficient-morl/tetrominoes"), open_dataset(DataConfig("tetrominoes"), "test")
    rows = sweep_steps(model, scenes, (0, 2), images=4)
    assert [row["value"] for row in rows] == [0, 2]
    direct = evaluate(model, scenes, num_steps=2, images=4)
    assert rows[1]["mse"] == direct.mean("mse")
    assert rows[1]["mse_error"] == direct.standard_error("mse")
    assert rows[0]["kl_hierarchical"] == pytest.approx(rows[1]["kl_hierarchical"])  # stage 1 is the same
    (row,) = sweep_slots(model, scenes, (6,), images=4)
    assert row["ari"] == evaluate(model, scenes, num_slots=6, images=4).mean("ari")


def test_scores_apart_by_number_of_objects() -> None:
    scores = evaluate(Known(), Greys())
    rows = by_objects(scores, Greys())
    assert [(row["value"], row["images"]) for row in rows] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert rows[2]["ari"] == pytest.approx(float(scores.values["ari"][0, 2]))


def test_one_model_sees_a_scene_always_alike_the_other_does_not() -> None:
    assert stability(Known(), Greys(), seeds=3, images=4).tolist() == [1.0] * 4
    untrained = open_dataset(DataConfig("tetrominoes-crowded"), "test")
    found = stability(load("efficient-morl/tetrominoes"), untrained, seeds=3, images=6)
    assert found.shape == (6,)
    assert found.min() < 0.95  # five pieces and four slots: something has to give, each time something else
    with pytest.raises(UserError, match="at least 2"):
        stability(Known(), Greys(), seeds=1)


@pytest.mark.parametrize(
    ("name", "counts"), [("tetrominoes-crowded", {5}), ("multi-dsprites-crowded", {6, 7})]
)
def test_crowded_scenes_have_more_objects_than_models_learn_from(name: str, counts: set[int]) -> None:
    scenes = DATASETS[name](length=8)
    assert scenes.info.name == name
    assert {len(scenes[index].segmentation.unique()) - 1 for index in range(8)} == counts


def test_sweep_command(emorl: Run, tmp_path: Path) -> None:
    options = ("--images", 3, "--out", "sweep.json", "--picture", "sweep.png")
    result = emorl("sweep", "slots", "efficient-morl/tetrominoes", "--values", 3, 5, *options)
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["slots", "3", "5"]
    saved = json.loads((tmp_path / "sweep.json").read_text())
    assert [row["value"] for row in saved["rows"]] == [3, 5]
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    wrong = emorl("sweep", "objects", "efficient-morl/tetrominoes", "--data", "multi-dsprites", "--images", 2)
    assert wrong.returncode == 2
    assert "35 pixels" in wrong.stderr
