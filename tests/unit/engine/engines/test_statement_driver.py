"""The results of statements in the lake: all at the end, and those of the statements before where the process ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.engines import access, statement_driver
from penstock.engine.engines.statement_driver import Given, main
from penstock.errors import LakeError
from penstock.lake.model import Lake

Run = Callable[[Given], Iterator[dict[str, Any]]]


class Store:
    """Keeps every content that an object had, and refuses the first `refused` of them."""

    def __init__(self, refused: int = 0) -> None:
        self.contents: list[str] = []
        self.refused = refused

    def put(self, key: str, content: bytes | Path) -> None:
        assert key == "results/1.jsonl"
        assert isinstance(content, Path), "large results are not held in memory"
        if self.refused:
            self.refused -= 1
            raise LakeError("the store does not answer")
        self.contents.append(content.read_text(encoding="utf-8"))

    @property
    def values(self) -> list[list[Any]]:
        """The single values of the results in each content."""
        return [[json.loads(line)["rows"][0][0] for line in content.splitlines()] for content in self.contents]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store()


@pytest.fixture
def drive(store: Store, credentials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], int]:
    lake = Lake("near", ("https://a.example:8443",), "bucket", "environment")
    given = {"cores": 1, "memory_bytes": 1 << 20, "lake": lake.to_json(), "metastore": "postgresql://"}
    (tmp_path / "access.json").write_text(json.dumps(given))
    (tmp_path / "statements.sql").write_text("SELECT 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(access, "S3ObjectStore", lambda *_: store)
    words = ["access.json", ".", ".", "--output", "s3a://bucket/results/1.jsonl", "--statements-file", "statements.sql"]
    return lambda run: main(words, run)


def result(value: Any) -> dict[str, Any]:
    return {"statement": "SELECT", "columns": [{"name": "x", "type": "int"}], "rows": [[value]], "truncated": False}


def test_the_results_are_stored_once_at_the_end(drive: Callable[[Run], int], store: Store) -> None:
    assert drive(lambda _: iter([result(1), result("ü")])) == 0
    assert store.values == [[1, "ü"]]
    assert "ü" in store.contents[0]


def test_a_failed_statement_is_in_the_results_and_the_exit_code_says_so(
    drive: Callable[[Run], int], store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert drive(lambda _: iter([{**result(1), "error": "no such table"}, result(2)])) == 1
    assert store.values == [[1, 2]]
    assert capfd.readouterr().err == "no such table\n"


def test_the_results_before_an_exception_are_stored(drive: Callable[[Run], int], store: Store) -> None:
    def run(_: Given) -> Iterator[dict[str, Any]]:
        yield result(1)
        raise MemoryError

    with pytest.raises(MemoryError):
        drive(run)
    assert store.values == [[1]]


def test_an_engine_that_does_not_start_stores_no_results(drive: Callable[[Run], int], store: Store) -> None:
    def run(_: Given) -> Iterator[dict[str, Any]]:
        raise LakeError("there is no such lake")

    assert drive(run) == 1
    assert store.contents == []


def test_the_results_are_stored_while_statements_run_for_a_process_that_will_be_killed(
    drive: Callable[[Run], int], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_driver, "_STORE_SECONDS", 0.0)
    monkeypatch.setattr(statement_driver, "_STORE_PAUSES", 0.0)
    store.refused = 1

    def run(_: Given) -> Iterator[dict[str, Any]]:
        for value in (1, 2, 3):
            yield result(value)
            # Between two statements, when the process may be killed in the next.
            assert store.values[-1:] == ([[*range(1, value + 1)]] if value > 1 else [])

    assert drive(run) == 0
    assert store.values[-1] == [1, 2, 3]
