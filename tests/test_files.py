"""Files are opened only if they are files, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import time
from pathlib import Path

import pytest

from emorl import files
from emorl.errors import Unreadable, UserError, check_numbers, check_seed
from emorl.files import append_line, open_regular, read_bytes, read_json, write_bytes


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    wrong = {
        tmp_path: "Is a directory",
        tmp_path / "pipe": "a pipe",
        tmp_path / "link": "a pipe",
        tmp_path / "socket": "a socket",
        Path("/dev/zero"): "a device",
        tmp_path / "none": "No such file",
        tmp_path / "loop": "symbolic links",
        tmp_path / "a\0b": "null",
        tmp_path / ("a" * 300): "too long",
    }
    for path, words in wrong.items():
        with pytest.raises(UserError, match=f"Cannot read .*{words}"):
            open_regular(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(2**40)  # takes no space
    with pytest.raises(UserError, match="has 1099511627776 bytes, and 100 are the limit"):
        read_bytes(tmp_path / "x", largest=100)


NO_OBJECTS = [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000]


@pytest.mark.parametrize("content", NO_OBJECTS, ids=lambda content: content[:6])
def test_what_is_no_json_object_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_a_write_that_fails_says_so_even_if_nothing_can_be_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", read_only)
    monkeypatch.setattr("builtins.open", read_only)
    with pytest.raises(UserError, match=r"Cannot write .*Read-only file system"):
        write_bytes(tmp_path / "x", b"1")


def test_temporary_files_are_of_one_process_and_do_not_stay(tmp_path: Path) -> None:
    seen: list[Path] = []
    write_bytes(tmp_path / "x", b"1", check=seen.append)
    write_bytes(tmp_path / "x", b"2", check=seen.append)
    assert seen[0] != seen[1]
    assert all(str(os.getpid()) in path.name for path in seen)
    assert os.listdir(tmp_path) == ["x"]

    def refuse(path: Path) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        write_bytes(tmp_path / "x", b"3", check=refuse)
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"2"


def test_what_a_killed_process_has_left_is_removed_after_a_while(tmp_path: Path) -> None:
    old, new = tmp_path / ".x.1-0123abcd.tmp", tmp_path / ".x.2-0123abcd.tmp"
    others = tmp_path / ".x.backup.tmp"
    old.write_bytes(b"half")
    new.write_bytes(b"of one that still lives")
    others.write_bytes(b"of another program")
    for path in (old, others):
        os.utime(path, (0, time.time() - files.ABANDONED - 1))
    write_bytes(tmp_path / "x", b"1")
    assert not old.exists()
    assert new.exists()
    assert others.exists()


def test_lines_are_added_to_files_alone(tmp_path: Path) -> None:
    append_line(tmp_path / "x", "one")
    append_line(tmp_path / "x", "two")
    assert (tmp_path / "x").read_text() == "one\ntwo\n"
    (tmp_path / "link").symlink_to(tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(UserError, match="Cannot write"):
            append_line(tmp_path / name, "three")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # now it can be opened
    with pytest.raises(UserError, match="it is a pipe"):
        append_line(tmp_path / "pipe", "three")
    os.close(reader)
    assert (tmp_path / "x").read_text() == "one\ntwo\n"


def test_json_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"x": [' + b"[]," * files.MOST_GROUPS + b"[]]}")
    with pytest.raises(UserError, match=r"x\.json .* more than 1048576 lists"):
        read_json(tmp_path / "x.json")


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    assert str(UserError("a\nb\x1b[31m c")) == r"a b\x1b[31m c"
    assert str(UserError("ü \udcff.png")) == "ü \udcff.png"
    assert len(str(UserError("x" * 10**6 + "the end"))) < 5000
    assert str(UserError("x" * 10**6 + "the end")).endswith("the end")
    error = pickle.loads(pickle.dumps(Unreadable(Path("a"), "it is damaged")))
    assert str(error) == "Cannot read a: it is damaged."


def test_numbers_are_finite_and_seeds_have_64_bits() -> None:
    class Config:
        rate, large, count = float("inf"), 10**400, float("nan")

    check_numbers("x", Config, positive=["large"])
    for options in ({"positive": ["rate"]}, {"count": 1}):
        with pytest.raises(UserError, match=r"x\.\w+ must be a finite number"):
            check_numbers("x", Config, **options)
    assert check_seed("--seed", 2**64 - 1) == 2**64 - 1
    for seed in (-1, 2**64):
        with pytest.raises(UserError, match="--seed must be at"):
            check_seed("--seed", seed)
