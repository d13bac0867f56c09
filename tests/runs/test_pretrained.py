"""Weights for others: a folder with settings, weights and a card, which opens like a run; the hub only if asked."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

import emorl
from emorl.cli import main
from emorl.errors import UserError
from emorl.files import MARK
from emorl.runs.card import header_of, read_header
from emorl.runs.directory import CONFIG, MODEL, README, SCORES, WEIGHTS
from emorl.runs.run import Run
from emorl.version import __version__
from small_models import TOYS
from tiny import TINY, tiny

FILES = {CONFIG, MODEL, README}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    emorl.train(TINY, str(out), settings={"train.steps": 4, "train.evaluate_images": 1})
    (out / SCORES).write_text(
        json.dumps({"ari": 0.5, "mse": 0.01, "images": 24, "per_image": {"ari": [[0.5]]}})
    )
    return out


@pytest.fixture
def saved(trained: Path, tmp_path: Path) -> Path:
    return emorl.save_pretrained(trained, tmp_path / "saved")


def same_weights(one: emorl.Model, other: emorl.Model) -> bool:
    return all(torch.equal(t, other.state_dict()[name]) for name, t in one.state_dict().items())


def test_training_takes_names(trained: Path) -> None:
    run = Run.open(trained)
    assert run.config == tiny(steps=4, evaluate_images=1, checkpoint_every=run.config.train.checkpoint_every,
                              evaluate_every=run.config.train.evaluate_every)  # fmt: skip
    assert emorl.train(trained / CONFIG, str(trained), resume=True).training is False


def test_settings_by_name_are_as_on_the_command_line() -> None:
    run = emorl.PRESETS[TINY]
    settings = {
        "train.learning_rate": "0 linear 5:0.1",
        "train.steps": 7,
        "data.path": Path("x"),
        "model.num_slots": 3,
    }
    changed = run.changed(settings)
    assert (changed.train.steps, changed.data.path, changed.model.num_slots) == (7, "x", 3)
    assert str(changed.train.learning_rate) == "0 linear 5:0.1"
    assert emorl.TrainConfig(learning_rate=0.1).learning_rate.at(0, 1) == 0.1  # type: ignore[arg-type]


def test_a_run_is_saved_and_opened(trained: Path, saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == FILES
    assert same_weights(emorl.from_pretrained(saved), emorl.load(trained))
    assert same_weights(emorl.load(str(saved)), emorl.load(trained))
    run = Run.open(saved)
    assert (run.steps_done, run.seed, run.is_finished, run.kind) == (4, 0, True, "efficient-morl")
    assert run.scores == {"ari": 0.5, "mse": 0.01, "images": 24}
    assert run.environment == Run.open(trained).environment
    assert run.config == Run.open(trained).config
    assert len(run.scenes("test")) == 320
    again = emorl.save_pretrained(saved, saved.parent / "again")  # of what was saved
    assert all((again / name).read_bytes() == (saved / name).read_bytes() for name in (CONFIG, README))
    assert read_header(again / MODEL) == read_header(saved / MODEL)


def test_the_header_says_what_it_is(saved: Path) -> None:
    with safetensors.safe_open(saved / MODEL, "pt") as file:
        header = file.metadata()
    assert header["format"] == "pt"
    assert header["software"] == MARK
    assert header["model"] == "efficient-morl"
    assert header["data"].startswith("tetrominoes, scenes 0 to ")
    assert json.loads(header["scores"])["ari"] == 0.5
    assert header["version"] == __version__


def test_the_card_is_a_page(saved: Path) -> None:
    page = (saved / README).read_text(encoding="utf-8")
    assert page.startswith("---\nlibrary_name: emorl\n")
    assert "# run\n" in page
    assert "| ARI | 0.500 |" in page
    assert "| training | 4 steps, seed 0" in page
    assert "Means over 24 held-out images" in page
    block = page.split("```python\n")[1].split("```")[0]
    compile(block, "README.md", "exec")
    assert "{" not in page.replace("{}", "")


def test_released_weights_are_saved_with_their_scores(tmp_path: Path) -> None:
    name = "efficient-morl/tetrominoes"
    emorl.save_pretrained(name, tmp_path / "saved")
    run = Run.open(tmp_path / "saved")
    assert run.scores["ari"] == Run.open(name).scores["ari"]
    assert run.card["data"] == Run.open(name).card["data"]
    x = emorl.open_dataset("tetrominoes", "test")[0].image
    one, other = (emorl.decompose(x, source) for source in (name, tmp_path / "saved"))
    assert torch.equal(one.masks, other.masks)


@pytest.mark.parametrize("kind", ["efficient-morl recipe", "genesis", "slot-mlp"])
def test_a_model_alone_is_saved(kind: str, tmp_path: Path) -> None:
    model = emorl.build(TOYS[kind]).eval()
    assert model.save_pretrained(tmp_path / "saved") == tmp_path / "saved"
    assert same_weights(emorl.from_pretrained(tmp_path / "saved"), model)
    run = Run.open(tmp_path / "saved")
    assert (run.steps_done, run.is_finished, run.scores) == (0, False, {})
    page = (tmp_path / "saved" / README).read_text(encoding="utf-8")
    assert "| training | not recorded |" in page
    assert "Not scored yet" in page
    with pytest.raises(UserError, match="no data set 'unknown'"):
        run.scenes("test")


def test_commands_take_the_folder(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(saved), "--images", "2", "--json"])
    assert json.loads(capsys.readouterr().out)["images"] == 2


def test_paths_of_this_machine_are_left_out(trained: Path, tmp_path: Path) -> None:
    config = Run.open(trained).config
    data, how = replace(config.data, path=str(tmp_path)), replace(config.train, start_from=str(trained))
    run = Run("x", replace(config, data=data, train=how), trained, trained / WEIGHTS)
    emorl.save_pretrained(run, tmp_path / "saved")
    assert all(str(tmp_path).encode() not in path.read_bytes() for path in (tmp_path / "saved").iterdir())


def test_only_its_own_files_are_replaced(trained: Path, saved: Path, tmp_path: Path) -> None:
    emorl.save_pretrained(trained, saved)  # over itself, as it was
    with pytest.raises(UserError, match="one of the inputs"):
        emorl.save_pretrained(saved, saved)
    with pytest.raises(UserError, match=r"holds a config\.json already"):
        emorl.save_pretrained(saved, trained)
    for name in FILES:
        other = tmp_path / f"other-{name}"
        other.mkdir()
        (other / name).write_text("{}")
        with pytest.raises(UserError, match=r"not overwritten|already"):
            emorl.save_pretrained(trained, other)
        assert [path.name for path in other.iterdir()] == [name]
        assert (other / name).read_text() == "{}"


@pytest.mark.parametrize(
    "change",
    [
        {"scores": "[1]"}, {"scores": "{"}, {"steps": "true"}, {"steps": "x"}, {"environment": "3"},
        {"scores": "[" * 100_000}, {"cpu_minutes": '"long"'},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_header_is_refused(saved: Path, change: dict[str, str]) -> None:
    weights, header = safetensors.torch.load_file(saved / MODEL), header_of(read_header(saved / MODEL))
    safetensors.torch.save_file(weights, saved / MODEL, header | change)
    with pytest.raises(UserError, match="is missing or wrong"):
        Run.open(saved)


def test_other_files_are_refused(saved: Path) -> None:
    safetensors.torch.save_file(safetensors.torch.load_file(saved / MODEL), saved / MODEL)
    with pytest.raises(UserError, match="does not say what it is"):
        emorl.from_pretrained(saved)
    (saved / MODEL).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="no readable weights"):
        emorl.from_pretrained(saved)


class Hub:
    """What huggingface_hub.HfApi is to us; remembers what it was asked for."""

    calls: list[tuple[str, Any]]
    folder: Path

    def __init__(self, **options: Any) -> None:
        Hub.calls = []
        assert options == {"library_name": "emorl", "library_version": __version__}

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool, token: str | None) -> str:
        self.calls.append(("create", (repo_id, private, exist_ok, token)))
        return f"https://hub/{repo_id}"

    def upload_folder(
        self, *, repo_id: str, folder_path: Path, allow_patterns: list[str], **options: Any
    ) -> None:
        self.calls.append(
            ("upload", (repo_id, {name: (folder_path / name).read_bytes() for name in allow_patterns}))
        )
        if repo_id == "nobody/x":
            raise OSError("403 Forbidden\nmore")

    def snapshot_download(self, repo_id: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        self.calls.append(("download", (repo_id, revision)))
        return str(Hub.folder)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, saved: Path) -> type[Hub]:
    module = ModuleType("huggingface_hub")
    module.HfApi = Hub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    Hub.folder = saved
    return Hub


def test_the_hub_gets_the_three_files(hub: type[Hub], trained: Path, saved: Path) -> None:
    assert emorl.push_to_hub(trained, "me/run", token="t") == "https://hub/me/run"
    (_, created), (_, (name, files)) = hub.calls
    assert created == ("me/run", True, True, "t")
    assert name == "me/run"
    assert set(files) == FILES
    (saved / README).write_text("my own words")
    emorl.push_to_hub(saved, "me/run")
    assert hub.calls[1][1][1][README] == b"my own words"
    assert same_weights(emorl.from_pretrained("me/run", hub=True, revision="v1"), emorl.load(trained))
    assert hub.calls == [("download", ("me/run", "v1"))]
    with pytest.raises(UserError, match=r"The hub has failed with 'nobody/x': 403 Forbidden\.$"):
        emorl.push_to_hub(trained, "nobody/x")


def test_the_real_interface_is_as_expected() -> None:
    api = pytest.importorskip("huggingface_hub").HfApi
    for name in ("create_repo", "upload_folder", "snapshot_download"):
        ours = set(getattr(Hub, name).__annotations__) - {"return", "options"}
        assert ours <= set(getattr(api, name).__annotations__), name


def test_a_missing_hub_is_named(monkeypatch: pytest.MonkeyPatch, trained: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'emorl\[hub\]'"):
        emorl.push_to_hub(trained, "me/run")


def test_nothing_is_contacted_unless_asked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the library nor the network is touched, even for a name that looks like one of the hub."""

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # to import it would fail
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    emorl.save_pretrained("efficient-morl/tetrominoes", saved.parent / "other")
    emorl.from_pretrained(saved)
    with pytest.raises(UserError, match="no released model"):
        emorl.from_pretrained("somebody/something")
