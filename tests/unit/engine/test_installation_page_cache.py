"""Output of the page cache's Java tool counts only if the tool completed, or reported why it did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine import installation
from penstock.errors import MissingRequirement
from penstock.runtime import jvm

Run = Callable[[str], Iterator[Mapping[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a shell script in place of Java."""

    def made(script: str) -> Iterator[Mapping[str, Any]]:
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o700)
        monkeypatch.setattr(jvm, "find_java", lambda: SimpleNamespace(executable=java))
        monkeypatch.setattr(jvm, "class_path", lambda: [])
        return installation._run("Tool", [])

    return made


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo '{\"objects\": 1}'; echo 'OutOfMemoryError' >&2; exit 3", "OutOfMemoryError"),
        ("echo '{\"objects\": 1}'; kill -9 $$", "SIGKILL"),
        ("echo '{\"objects\": 1}'; printf '{\"obj'", "exit code 0"),
        ("exit 1", "exit code 1"),
    ],
)
def test_a_tool_that_dies_after_its_first_line_is_a_failure(run: Run, script: str, why: str) -> None:
    with pytest.raises(MissingRequirement) as failed:
        list(run(script))
    assert why in failed.value.why


@pytest.mark.parametrize(
    "line", ['{"error": "gone", "path": "s3a://lake/x"}', '{"tier": "disk", "state": "unreadable"}']
)
def test_a_failure_that_the_tool_tells_itself_is_left_to_its_reader(run: Run, line: str) -> None:
    assert len(list(run(f"echo '{line}'; exit 1"))) == 1


def test_a_tool_whose_reader_has_enough_is_ended_and_no_failure(run: Run) -> None:
    reports = run("echo '{\"objects\": 1}'; exec sleep 60")
    assert next(reports) == {"objects": 1}
    reports.close()  # type: ignore[attr-defined]
