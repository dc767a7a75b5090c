"""A short run of a Java program leaves nothing behind and shows its secrets to nobody."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from penstock.runtime import tool

# Prints its directory's mode, a file's content, its last argument and a variable; then stays.
STAYS = 'stat -c %a .; cat secret; for last; do :; done; echo "$last"; echo "$PLACE"; pwd; exec sleep 60'


@pytest.fixture
def java(tmp_path: Path) -> Path:
    return tmp_path / "java"


def run_as(java: Path, script: str, **how: object) -> AbstractContextManager[tool.ToolRun]:
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o700)
    return tool.run("Main", ["{private}/x"], java=java, jars=[Path("a.jar")], **how)  # type: ignore[arg-type]


def test_its_files_are_in_a_directory_of_its_own_that_is_gone_afterwards(java: Path) -> None:
    place = {"PLACE": "{private}/y", "PATH": os.defpath}
    with run_as(java, STAYS, files={"secret": "s3cret\n"}, environment=place) as running:
        lines = running.lines()
        mode, secret, argument, variable, directory = (next(lines).strip() for _ in range(5))
        command = Path(f"/proc/{running._process.pid}/cmdline").read_bytes()
    assert (mode, secret) == ("700", "s3cret")
    assert (argument, variable) == (f"{directory}/x", f"{directory}/y")
    assert b"s3cret" not in command
    assert not Path(directory).exists()


def test_a_caller_that_leaves_ends_the_program(java: Path) -> None:
    with run_as(java, "echo here; exec sleep 60") as running:
        assert next(running.lines()) == "here\n"
    assert running.ending == "signal SIGTERM"


def test_its_end_is_waited_for_no_longer_than_wanted(java: Path) -> None:
    with run_as(java, "echo here; exec sleep 60") as running:
        next(running.lines())
        assert not running.ended_within(0.01)
        running.end()
        assert running.ended_within(10)


def test_a_program_whose_memory_is_used_up_ends(java: Path) -> None:
    with run_as(java, 'echo "$*"') as running:
        assert "-XX:+ExitOnOutOfMemoryError" in next(running.lines()).split()


def test_its_end_and_its_last_errors_are_reported(java: Path) -> None:
    with run_as(java, "for i in 1 2 3 4 5 6 7; do echo $i >&2; done; exit 3") as running:
        assert list(running.lines()) == []
        assert (running.code, running.ending, running.last_errors(2)) == (3, "exit code 3", ["6", "7"])
