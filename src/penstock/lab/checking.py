"""Checks the answers of a run against the independent engine, and remembers what that engine said.

Its answer depends on the rows, the query's text and the engine alone, so it is asked once for data of one scale, in
whatever layout: an answer from the files of one layout is the right one for every other. The files it read and what it
said are in the home's cache, of the newest rows only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

from penstock.home import Home, write_json
from penstock.lab import answers, dialect
from penstock.lab.answers import Answer, Verdict, side_by_side
from penstock.lab.reference import Reference, download
from penstock.lake.model import ObjectStore


class AnswerKey:
    """The right answers for the data set at `prefix`, whose manifest is `manifest`."""

    def __init__(self, home: Home, store: ObjectStore, prefix: str, manifest: bytes) -> None:
        self._directory = home.cache / "answers" / _short_hash(_rows(manifest) + metadata.version("duckdb").encode())
        self._files = self._directory / f"files-{_short_hash(manifest + prefix.encode())}"
        self._store = store
        self._prefix = prefix
        self._reference: Reference | None = None
        self._forget_others()

    def close(self) -> None:
        if self._reference is not None:
            self._reference.close()
            self._reference = None

    def expected(self, query: str, text: str) -> Answer:
        adapted = hashlib.sha256(dialect.adapted(query, text).encode()).hexdigest()[:12]
        file = self._directory / f"{query}-{adapted}.json"
        if file.exists():
            return Answer.from_json(json.loads(file.read_text(encoding="utf-8")))
        answer = self._engine().answer(query, text)
        write_json(file, answer.to_json())
        return answer

    def check(self, answer: Answer, text: str) -> Verdict:
        """The verdict; the whole result is asked for only where rows tied at a LIMIT may explain a difference."""
        expected = self.expected(answer.query, text)
        verdict = answers.judge(answer, expected)
        if verdict.same or len(answer.rows) != len(expected.rows):
            return verdict
        whole = self._engine().whole(answer.query, text)
        return verdict if whole is None else answers.judge_top(answer, whole)

    def _engine(self) -> Reference:
        if self._reference is None:
            for other in self._directory.glob("files-*"):
                if other != self._files:
                    shutil.rmtree(other, ignore_errors=True)
            download(self._store, self._prefix, self._files)
            self._reference = Reference(self._files, scratch=self._directory / "scratch")
        return self._reference

    def _forget_others(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in self._directory.parent.iterdir():
            if other != self._directory:
                shutil.rmtree(other, ignore_errors=True)


def _rows(manifest: bytes) -> bytes:
    """What decides which rows there are: the scale, the generator, and how many of each table were written."""
    found = json.loads(manifest)
    rows = {table["table"]: table["rows"] for table in found["tables"]}
    return json.dumps([found["scale"], found.get("versions"), rows], sort_keys=True).encode()


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def check_all(
    key: AnswerKey, lines: Iterable[Mapping[str, Any]], texts: Mapping[str, str], now: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A sample of kind `answer` for each line of an application's `answers.jsonl`, with `whose` it was if it says."""
    found = list(lines)
    for index, line in enumerate(found, start=1):
        now(f"{line['query']} ({index} of {len(found)})")
        answer = Answer.from_json(line)
        verdict = key.check(answer, texts[answer.query])
        sample = {"query": answer.query, "verdict": "equal" if verdict.same else "different", "note": verdict.note}
        if "whose" in line:
            sample["whose"] = line["whose"]
        yield sample if verdict.same else {**sample, "lines": side_by_side(verdict, answer.columns)}
