"""The last lines of logs and of programs' output."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.processes import last_lines, tail


def test_the_last_lines_without_blank_ones(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_text("first\nsecond\n\n   \nthird\n\n", encoding="utf-8")
    assert tail(log, 2) == "second\nthird"
    assert tail(log, 1) == "third"
    assert tail(log, 8) == "first\nsecond\nthird"
    assert last_lines(log.read_text(encoding="utf-8"), 2) == "second\nthird"


@pytest.mark.parametrize("lines", [1, 8, 200, 5000])
def test_a_long_log_ends_like_a_short_one(tmp_path: Path, lines: int) -> None:
    log = tmp_path / "daemon.log"
    everything = [f"line {number} " + "x" * (number % 700) for number in range(3000)]
    log.write_text("\n\n".join(everything) + "\n", encoding="utf-8")
    assert tail(log, lines).splitlines() == everything[-lines:]


def test_only_the_end_of_a_huge_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    with log.open("wb") as file:
        file.truncate(1 << 34)  # sparse; reading all of it would exhaust the memory
        file.seek(0, 2)
        file.write(b"\nlast but one\nlast\n")
    assert tail(log, 2) == "last but one\nlast"


def test_a_line_longer_than_a_block_is_returned_whole(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_text("before\n" + "x" * 100_000 + "\n", encoding="utf-8")
    assert tail(log, 1) == "x" * 100_000


def test_invalid_utf_8_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"caf\xe9\n")
    assert tail(log, 1) == "caf\ufffd"


def test_a_log_that_is_missing_or_empty_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", 3) == ""
    assert tail(tmp_path, 3) == ""
    (tmp_path / "empty").touch()
    assert tail(tmp_path / "empty", 3) == ""
