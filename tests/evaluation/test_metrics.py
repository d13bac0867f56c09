"""METRICS: every name has words, and a new score is one function and one entry."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor

from emorl.cli import main
from emorl.data import open_dataset
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.metrics import (
    METRICS,
    Answer,
    Metric,
    metric,
    renamed,
    score,
    shown_first,
    shown_in_charts,
)
from emorl.evaluation.sweeps import sweep
from emorl.models import MODELS, build
from emorl.report.groups import QUICK
from emorl.report.html import render
from emorl.report.page import build_page
from emorl.runs.presets import PRESETS
from emorl.types import Decomposition, Outcome, Progress, Scene
from toys import SHIPPED, CountedGreys, Greys, Known, Toy, toy_run

TINIES = {type(config.model): name for name, config in PRESETS.items() if name.endswith("-tiny")}


def darkness(answer: Answer) -> Tensor:
    """1 for a black reconstruction, 0 for a white one."""
    return 1 - answer.decomposition.image.mean(dim=(1, 2, 3))


@pytest.fixture
def new_metric(monkeypatch: pytest.MonkeyPatch) -> str:
    entry = Metric("Darkness", "how black it is", 2, 100, "%", direction="down", compute=darkness)
    monkeypatch.setitem(METRICS, "darkness", entry)
    return "darkness"


def test_a_new_score_is_evaluated_and_swept(new_metric: str) -> None:
    scores = evaluate(Known(), CountedGreys())
    torch.testing.assert_close(scores.of_images(new_metric), torch.tensor([1.0, 0.8, 0.6, 0.4]))
    assert scores.to_dict()[new_metric] == pytest.approx(0.7)
    (row,) = sweep(Known(), CountedGreys(), "num_slots", [2])
    assert row[new_metric] == pytest.approx(0.7)
    assert row[f"{new_metric}_error"] > 0


def test_scores_by_colour_give_an_outline_to_the_slot_that_has_its_colour() -> None:
    """An object of two columns, whose mask has one of them and leaves the other to a black background, or nearly so."""
    true = torch.tensor([[[0, 1, 1, 2]]])
    image = torch.tensor([0.0, 1.0, 1.0, 0.5]).expand(1, 3, 1, 4)
    masks = torch.tensor([[0.9, 0.1, 0.9, 0.0], [0.1, 0.9, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0]])
    colours = torch.tensor([0.0, 1.0, 0.5]).reshape(1, 3, 1, 1, 1).expand(1, 3, 3, 1, 4)
    found = Decomposition(masks.reshape(1, 3, 1, 1, 4), colours, torch.zeros(1, 3, 2))
    scores = score(Outcome(torch.zeros(()), {}, (found,)), Scene(image, true, {}), has_masks=True)
    assert scores["ari"] < 0.6
    assert scores["ari_by_colour"] == scores["miou_by_colour"] == 1.0


def test_a_new_score_is_in_the_console_and_in_the_file_of_a_sweep(
    new_metric: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["evaluate", SHIPPED, "--images", "2"])
    assert "Darkness" not in capsys.readouterr().out  # it is not among the few that come first
    main(["evaluate", SHIPPED, "--images", "2", "--all"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Darkness (%)")]
    assert line.endswith("how black it is")
    main(["evaluate", SHIPPED, "--images", "2", "--json"])
    assert 0 < json.loads(capsys.readouterr().out)[new_metric] < 1
    out = tmp_path / "sweep.json"
    main(["sweep", "slots", SHIPPED, "--images", "2", "--values", "4", "--all", "--out", str(out)])
    assert "Darkness (%)" in capsys.readouterr().out
    assert 0 < json.loads(out.read_text())["rows"][0][new_metric] < 1


def test_a_new_score_is_in_the_report(new_metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy", Toy)

    def quiet(title: str) -> nullcontext[Progress]:
        return nullcontext(lambda done, total: None)

    page = render(build_page([(toy_run(), Greys())], QUICK, stage=quiet, commands=[], footer=""))
    assert "Darkness (%)" in page
    assert "how black it is" in page


@pytest.mark.parametrize("name", TINIES.values())
def test_everything_that_a_model_logs_has_a_title_and_a_meaning(name: str) -> None:
    config = PRESETS[name]
    scores = evaluate(build(config.model), open_dataset(config.data, "test"), images=1)
    unknown = [one for one in scores.values if not metric(one).meaning]
    assert unknown == []


def test_numbered_and_validation_names_have_entries_of_their_own() -> None:
    assert metric("kl_3").title == "KL of layer 3"
    assert metric("update_12").heading == "Refinement update 12"
    assert metric("validation_mse").heading == "Validation MSE (× 10⁻⁴)"
    assert metric("validation_mse").factor == METRICS["mse"].factor
    assert metric("some_thing").heading == "Some thing"


def test_what_people_see_first() -> None:
    first = ["ari", "ari_with_background", "miou", "mse", "slots_used"]
    assert shown_first(METRICS) == first
    assert shown_in_charts(METRICS) == [*first, "kl"]


def test_numbers_are_written_with_their_factor_and_digits() -> None:
    assert METRICS["mse"].text(7e-4, 6e-4) == "7.0 ± 6.0"
    assert METRICS["ari"].text(0.98249) == "0.982"


def test_names_of_older_versions() -> None:
    assert renamed({"step": 1, "kl_refined": 2.0, "validation_kl_refined": 3.0}) == {
        "step": 1,
        "kl": 2.0,
        "validation_kl": 3.0,
    }


def test_scores_that_need_masks_are_left_out_where_there_are_none() -> None:
    scores = evaluate(Toy(), Greys())
    assert set(scores.values) == {"mse", "slots_used", "explained"}
