"""What pages say of the code is true: commands, settings, presets, names and files exist, and Python runs."""

from __future__ import annotations

import dataclasses
import functools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import emorl.cli
from conftest import ROOT
from doc_text import DOCS, blocks, commands, spans, text_of
from emorl.experiments import EXPERIMENTS
from emorl.files import write_json
from emorl.runs.presets import PRESETS
from emorl.runs.run import released

PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PLACES = {  # words in capitals that stand for something, and what might stand there
    "PRESET": "efficient-morl/tetrominoes", "NAME": "tetrominoes", "RUN": "runs/a", "FILE": "a.tfrecords",
    "FOLDER": "folder", "PICTURES": "photos", "N": "2", "M": "2",
}  # fmt: skip
FILE = re.compile(r"\.(json|jsonl|txt|png|gif|npz|pt|safetensors|html|md|toml|h5)$")
OTHER_PROGRAMS = ("cd", "make", "pip", "pre-commit", "python", "source")


def of_pages(find: Callable[[str], list[str]]) -> list[Any]:
    """What `find` finds on each page, with the page's name."""
    return [
        pytest.param(one, id=f"{path.name}:{one[:50]}")
        for path in PAGES
        for one in dict.fromkeys(find(text_of(path)))
    ]


def emorl_commands(text: str) -> list[str]:
    """Commands in blocks, and those in sentences that have arguments."""
    lines = [line for line in commands(text) if re.match(r"(\S*/)?emorl\s", line)]
    return lines + [span for span in spans(text) if re.match(r"emorl \S+ \S", span)]


@pytest.fixture
def understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Reads a command line as `emorl` does, up to where it would begin to work."""
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "config.json", PRESETS["efficient-morl/tetrominoes"].to_dict())
    called: list[str] = []
    real = emorl.cli.function

    def stub(module: str, name: str) -> Callable[..., None]:
        command = real(module, name)
        if name == "train_command":  # reads its arguments itself
            return command

        @functools.wraps(command)
        def call(*_: Any, **__: Any) -> None:
            called.append(name)

        return call

    def read(line: str) -> None:
        words = [PLACES.get(word, word) for word in shlex.split(line)]
        words = ["config.json" if word.endswith("/config.json") else word for word in words]
        words = [re.sub(r"\bNAME\b", "new", word) for word in words]
        emorl.cli.main(words[1:])
        assert called, line

    monkeypatch.setattr("emorl.cli.function", stub)
    monkeypatch.setattr("emorl.cli.train.train", lambda *_, **__: called.append("train"))
    return read


@pytest.mark.parametrize("line", of_pages(emorl_commands))
def test_commands_are_understood(line: str, understood: Callable[[str], None]) -> None:
    if line.endswith(("--help", "--version", "emorl train --from")):
        return
    if re.fullmatch("emorl data (convert|store|preview)", line):
        return  # the name of a command, not a command
    understood(line)


def test_a_wrong_command_would_be_found(understood: Callable[[str], None]) -> None:
    understood("emorl evaluate RUN --tries 4")
    for wrong in ("emorl evaluate RUN --try 4", "emorl evalute RUN", "emorl train PRESET --model.sigma 1"):
        with pytest.raises(SystemExit):
            understood(wrong)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_belongs_to_a_list_is_indented_by_four_spaces(path: Path) -> None:
    """With fewer the list ends there on the site, and its next number is 1 again."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?<=\n\n) {1,3}\S.*", text) == []


def test_blocks_hold_commands_of_known_programs() -> None:
    for path in PAGES:
        for line in commands("\n".join(f"```bash\n{b}```" for b in blocks(text_of(path), "bash"))):
            program = line.split()[0].rsplit("/", 1)[-1]
            assert program == "emorl" or program in OTHER_PROGRAMS, f"{path.name}: {line}"


def test_make_knows_its_targets() -> None:
    targets = set(
        re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    for path in PAGES:
        text = text_of(path)
        for line in [*commands(text), *spans(text)]:
            for words in re.findall(r"^make ((?:[a-z-]+ ?)+)", line):
                assert set(words.split()) <= targets, f"{path.name}: {line}"


def test_presets_weights_and_experiments_exist() -> None:
    systems = "|".join(sorted({name.split("/")[0] for name in PRESETS}))
    for path in PAGES:
        text = text_of(path)
        for name in re.findall(rf"\b((?:{systems})/[a-z][\w-]*)", text):
            old = path.name == "changelog.md" and name.endswith("-fast")
            assert name in PRESETS or name in released() or old, f"{path.name}: {name}"
        for name in re.findall(r"emorl reproduce ([a-z][\w-]*)", text):
            assert name in EXPERIMENTS or path.name == "extending.md", f"{path.name}: {name}"


def settings(config: Any, prefix: str) -> Iterator[str]:
    """Every setting of a configuration as an option of the command line."""
    for field in dataclasses.fields(config):
        name, value = f"{prefix}.{field.name.replace('_', '-')}", getattr(config, field.name)
        yield name
        if dataclasses.is_dataclass(value):
            yield from settings(value, name)


def test_options_exist() -> None:
    known = set()
    for preset in PRESETS.values():
        for group in ("model", "data", "train"):
            known |= set(settings(getattr(preset, group), group))
    for path in PAGES:
        for option in re.findall(r"--((?:model|data|train)\.[a-z][a-z.-]*[a-z])", text_of(path)):
            assert option in known, f"{path.name}: --{option}"


def test_named_files_and_code_exist() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    theirs = {"torch.profiler", "torch.compile", "bash", "interactive"}  # of PyTorch and SLURM
    for path in PAGES:
        for span in set(spans(text_of(path))) - theirs:
            if re.fullmatch(
                r"(tests|experiments|nn|src|report|evaluation|docs|models|data)/[\w/.-]+\.\w+", span
            ):
                assert any((root / span).exists() for root in (ROOT, ROOT / "src" / "emorl")), (
                    f"{path.name}: {span}"
                )
            elif re.fullmatch(r"[a-z]+(?:_[a-z0-9]+)+|[a-z_]+(?:\.[a-z_]+)+", span) and not FILE.search(span):
                name = span.rsplit(".", 1)[-1]
                assert re.search(rf"\b{name}\b", source), f"{path.name}: {span}"


@pytest.mark.parametrize("name", ["quickstart.md", "tutorials/edit.md"])
def test_python_on_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "\n".join(blocks(text_of(ROOT / "docs" / name), "python"))
    exec(compile(script, name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
