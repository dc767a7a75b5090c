"""Uploads by content hash: the lake gets the intended content or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.tokens import Scope
from penstock.errors import NotFound
from penstock.lake.model import Lake, ObjectInfo
from penstock.service.api import applications, uploads
from tests.unit.service.fakes import Stage

CONTENT = b"print('hello')\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ADDRESS = f"/v1/files/{DIGEST}/job.py"
KEY = f"penstock/uploads/ours/{DIGEST}/job.py"


class Objects:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.age = timedelta()

    def put(self, key: str, content: Path) -> None:
        self.kept[key] = content.read_bytes()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if key not in self.kept:
            raise NotFound(f"There is no object {key}")
        return self.kept[key][start:][:length]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (
            ObjectInfo(key, 1, datetime.now(timezone.utc) - self.age, "") for key in self.kept if key.startswith(prefix)
        )


@pytest.fixture
def objects(stage: Stage) -> Objects:
    found = Objects()
    stage.engine.store = lambda _: found  # type: ignore[attr-defined]
    stage.engine.lake = lambda _=None: Lake("lake", (), "bucket", "")  # type: ignore[attr-defined]
    return found


def test_a_file_is_stored_under_its_hash_and_found_again(stage: Stage, objects: Objects) -> None:
    client = stage.client(Scope.SUBMIT)
    assert client.get(ADDRESS).status_code == 404
    put = client.put(ADDRESS, content=CONTENT)
    assert (put.status_code, put.json()) == (201, {"address": f"s3a://bucket/{KEY}"})
    assert client.get(ADDRESS).json() == put.json()
    assert objects.kept == {KEY: CONTENT}


@pytest.mark.parametrize("before", [{}, {KEY: CONTENT}], ids=["uploaded", "found"])
def test_a_program_is_kept_on_the_services_machine_too(
    stage: Stage, objects: Objects, before: dict[str, bytes]
) -> None:
    stage.engine.home.create()
    objects.kept.update(before)
    client = stage.client(Scope.SUBMIT)
    if client.get(ADDRESS).status_code == 404:
        client.put(ADDRESS, content=CONTENT)
    assert (stage.engine.home.cache / "uploads" / DIGEST / "job.py").read_bytes() == CONTENT


def test_a_file_that_may_soon_be_swept_is_brought_again(stage: Stage, objects: Objects) -> None:
    client = stage.client(Scope.SUBMIT)
    client.put(ADDRESS, content=CONTENT)
    objects.age = stage.service.retention.unused - timedelta(hours=23)
    assert client.get(ADDRESS).status_code == 404


def test_what_is_not_what_its_address_says_is_not_kept(stage: Stage, objects: Objects) -> None:
    answer = stage.client(Scope.SUBMIT).put(ADDRESS, content=CONTENT + b"more")
    assert (answer.status_code, objects.kept) == (422, {})
    assert "does not have the digest in its address" in answer.json()["problem"]


def test_what_is_too_large_is_not_read_to_its_end(
    stage: Stage, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 100)
    answer = stage.client(Scope.SUBMIT).put(ADDRESS, content=iter([b"x" * 60] * 3))
    assert (answer.status_code, objects.kept) == (422, {})


@pytest.mark.parametrize(
    "address",
    [
        f"/v1/files/{DIGEST[:-1]}/job.py",
        f"/v1/files/{DIGEST}/..",
        f"/v1/files/{DIGEST}/a%2Fb",
        f"/v1/files/{DIGEST}/.hidden",
        f"/v1/files/{DIGEST}/{'x' * 300}",
    ],
)
def test_no_other_address_takes_a_file(stage: Stage, objects: Objects, address: str) -> None:
    assert stage.client(Scope.SUBMIT).put(address, content=CONTENT).status_code in (404, 405, 422)
    assert objects.kept == {}


def test_who_may_only_read_uploads_nothing(stage: Stage, objects: Objects) -> None:
    assert stage.client(Scope.READ).put(ADDRESS, content=CONTENT).status_code == 403
    assert objects.kept == {}


def test_nothing_of_an_upload_stays_on_the_services_disk(stage: Stage, objects: Objects) -> None:
    client = stage.client(Scope.SUBMIT)
    client.put(ADDRESS, content=CONTENT)
    client.put(ADDRESS, content=b"other")
    assert list((stage.service.home.root / "service").iterdir()) == []


def test_results_of_statements_come_only_from_where_drivers_leave_them(stage: Stage, objects: Objects) -> None:
    objects.kept |= {"penstock/results/1.jsonl": b'{"rows": [[1]]}\n', "secrets/key.jsonl": b'{"secret": 1}\n'}
    client = stage.client(Scope.SUBMIT)

    def results(output: str) -> tuple[int, object]:
        body = {"application": "spark-internal", "main_class": "io.penstock.sql.SqlRunner"}
        made = client.post("/v1/applications", json={**body, "arguments": ["--output", output]}).json()
        answer = client.get(f"/v1/applications/{made['id']}/results")
        return answer.status_code, answer.json().get("items")

    assert results("s3a://bucket/penstock/results/1.jsonl") == (200, [{"rows": [[1]]}])
    for output in ("s3a://bucket/secrets/key.jsonl", "s3a://bucket/penstock/results/../../secrets/key.jsonl"):
        assert results(output) == (200, [])


def test_statements_are_found_whether_they_were_submitted_here_or_through_the_service(
    stage: Stage, objects: Objects
) -> None:
    client = stage.client(Scope.SUBMIT)

    def statements(source: str, *, stored: bytes | None = None) -> tuple[int, dict[str, Any]]:
        body = {"application": "spark-internal", "main_class": "io.penstock.sql.SqlRunner"}
        made = client.post("/v1/applications", json={**body, "arguments": ["--statements-file", source]}).json()
        if stored is not None:
            objects.kept[f"penstock/applications/{made['id']}/statements.sql"] = stored
        answer = client.get(f"/v1/applications/{made['id']}/statements")
        return answer.status_code, answer.json()

    objects.kept |= {KEY: CONTENT, "secrets/key": b"secret"}
    assert statements(f"s3a://bucket/{KEY}") == (200, {"statements": CONTENT.decode()})
    assert statements("/root/cache/statements.sql", stored=b"SELECT 1") == (200, {"statements": "SELECT 1"})
    for source in ("s3a://bucket/secrets/key", "s3a://bucket/penstock/uploads/../../secrets/key", "/etc/passwd"):
        status, answer = statements(source)
        assert (status, answer["why"]) == (404, "its command ended before it had stored them")


def test_statements_that_are_no_text_are_refused_with_the_place(stage: Stage, objects: Objects) -> None:
    client = stage.client(Scope.SUBMIT)
    objects.kept[KEY] = b"SELECT '\xe4'"
    body = {"application": "spark-internal", "main_class": "io.penstock.sql.SqlRunner"}
    arguments = ["--statements-file", f"s3a://bucket/{KEY}"]
    made = client.post("/v1/applications", json={**body, "arguments": arguments}).json()
    answer = client.get(f"/v1/applications/{made['id']}/statements")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "byte 9" in answer.json()["why"]


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[1]", b"[" * 100_000], ids=["bytes", "half", "list", "deep"])
def test_results_that_are_no_results_are_refused(stage: Stage, objects: Objects, content: bytes) -> None:
    client = stage.client(Scope.SUBMIT)
    objects.kept["penstock/results/1.jsonl"] = content
    body = {"application": "spark-internal", "main_class": "io.penstock.sql.SqlRunner"}
    arguments = ["--output", "s3a://bucket/penstock/results/1.jsonl"]
    made = client.post("/v1/applications", json={**body, "arguments": arguments}).json()
    answer = client.get(f"/v1/applications/{made['id']}/results")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_a_program_has_no_statements(stage: Stage, objects: Objects) -> None:
    client = stage.client(Scope.SUBMIT)
    made = client.post("/v1/applications", json={"application": "s3a://bucket/pi.py"}).json()
    answer = client.get(f"/v1/applications/{made['id']}/statements")
    assert (answer.status_code, answer.json()["why"]) == (404, "it runs a program")


def test_results_that_would_fill_the_services_memory_are_left_in_the_lake(
    stage: Stage, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, read, get = b'{"rows": [[1]]}\n', [], objects.get
    monkeypatch.setattr(applications, "MOST_RESULT_BYTES", len(line))
    monkeypatch.setattr(objects, "get", lambda *given, **more: read.append(get(*given, **more)) or read[-1])
    objects.kept |= {"penstock/results/1.jsonl": line, "penstock/results/2.jsonl": line * 100}
    client = stage.client(Scope.SUBMIT)
    body = {"application": "spark-internal", "main_class": "io.penstock.sql.SqlRunner"}
    addresses = [f"s3a://bucket/penstock/results/{number}.jsonl" for number in (1, 2)]
    made = [
        client.post("/v1/applications", json={**body, "arguments": ["--output", address]}).json()["id"]
        for address in addresses
    ]
    assert client.get(f"/v1/applications/{made[0]}/results").json() == {"items": [{"rows": [[1]]}]}
    refused = client.get(f"/v1/applications/{made[1]}/results")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert made[1] in refused.json()["problem"]
    assert "--limit" in refused.json()["fix"]
    assert f"{addresses[1]} in the lake" in refused.json()["fix"]
    assert max(map(len, read)) == len(line) + 1
