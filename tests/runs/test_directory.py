"""What is kept line by line: metrics and history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emorl.errors import UserError
from emorl.runs import directory
from emorl.runs.directory import HISTORY, METRICS_FILE, append_history, read_history, read_metrics


def write(directory: Path, *lines: str, end: str = "\n") -> None:
    (directory / METRICS_FILE).write_bytes(("\n".join(lines) + end).encode("latin-1"))


def test_metrics_are_read_line_by_line(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []
    write(tmp_path, '{"step": 0, "loss": 1.5}', '{"step": 1, "loss": null}')
    assert read_metrics(tmp_path) == [{"step": 0, "loss": 1.5}, {"step": 1, "loss": None}]


def test_earlier_names_become_todays(tmp_path: Path) -> None:
    write(tmp_path, '{"step": 0, "kl_refined": 2.0, "validation_kl_refined": 3.0}')
    assert read_metrics(tmp_path) == [{"step": 0, "kl": 2.0, "validation_kl": 3.0}]


@pytest.mark.parametrize("torn", ['{"step": 1, "lo', '{"step": 1', "\0\0\0\0"])
def test_a_line_torn_by_a_crash_is_left_out(tmp_path: Path, torn: str) -> None:
    write(tmp_path, '{"step": 0}', torn, end="")
    assert read_metrics(tmp_path) == [{"step": 0}]


@pytest.mark.parametrize(
    "line",
    ["garbage", "[1]", "7", "{}", '{"step": "x"}', '{"step": -1}', '{"step": true}', '{"step": 1, "loss": "low"}',
     '{"step": 1, "loss": []}',
     '{"step": 1, "loss": NaN}', '{"step": 1, "loss": 1e999}', '{"step": 1' + "0" * 400 + "}",
     "\xff\xfe", "[" * 100_000],
)  # fmt: skip
def test_damaged_lines_are_named(tmp_path: Path, line: str) -> None:
    write(tmp_path, '{"step": 0}', line, '{"step": 2}')
    with pytest.raises(
        UserError, match=rf"{METRICS_FILE} is damaged in line 2: delete that line, or the file\."
    ):
        read_metrics(tmp_path)


def test_history_only_grows(tmp_path: Path) -> None:
    append_history(tmp_path, {"event": "start"})
    append_history(tmp_path, {"event": "resume", "step": 3})
    assert [line["event"] for line in read_history(tmp_path)] == ["start", "resume"]
    assert len((tmp_path / HISTORY).read_text().splitlines()) == 2
    (tmp_path / HISTORY).write_text(json.dumps({"what": 1}) + "\n")
    with pytest.raises(UserError, match="is damaged in line 1"):
        read_history(tmp_path)


def test_a_log_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "[" + "[]," * directory.LONGEST_LINE)
    with pytest.raises(UserError, match="a line of more than 1048576 bytes"):
        read_metrics(tmp_path)
    monkeypatch.setattr(directory, "MOST_VALUES", 10)
    write(tmp_path, *['{"step": 1}'] * 10)
    assert len(read_metrics(tmp_path)) == 10
    write(tmp_path, *['{"step": 1}'] * 11)
    with pytest.raises(UserError, match="more than 10 values"):
        read_metrics(tmp_path)
