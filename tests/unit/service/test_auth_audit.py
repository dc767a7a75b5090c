"""The audit: no entry is dropped, and changes that cannot be audited are refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.engine.repository.audit import Audit
from penstock.engine.tokens import Scope
from penstock.errors import ServiceError
from penstock.service.access_log import AnsweredRequest
from penstock.service.auth import Auditor
from tests.unit.service.fakes import Stage


def seen(number: int, method: str = "POST", caller: str | None = "me") -> AnsweredRequest:
    return AnsweredRequest(f"{number}", method, f"/v1/{number}", "/v1/{number}", 201, 0.1, "::1", caller, "t", None)


class Database:
    """A ledger that fails while it is `away`."""

    def __init__(self, *, away: bool = False) -> None:
        self.back = threading.Event()
        self.tried = threading.Semaphore(0)
        self.subjects: list[str] = []
        if not away:
            self.back.set()

    def audit(self, entries: Sequence[Audit]) -> None:
        self.tried.release()
        if not self.back.is_set():
            raise OSError("the database is away")
        self.subjects += [entry.subject for entry in entries]


def test_every_change_is_written_down_in_order_and_no_look() -> None:
    database = Database()
    auditor = Auditor(database.audit)
    for number in range(50):
        auditor.add(seen(number))
    auditor.add(seen(50, "GET"))
    auditor.add(seen(51, caller=None))
    auditor.close()
    assert database.subjects == [f"/v1/{number}" for number in range(50)]


def test_entries_that_could_not_be_written_are_written_later_and_nothing_changes_before() -> None:
    database = Database(away=True)
    auditor = Auditor(database.audit, retry_seconds=0.001)
    auditor.admit("POST")
    auditor.add(seen(1))
    assert database.tried.acquire(timeout=10) and database.tried.acquire(timeout=10)
    for method in ("POST", "PUT", "PATCH", "DELETE", "ANYTHING"):
        with pytest.raises(ServiceError):
            auditor.admit(method)
    auditor.admit("GET")
    auditor.add(seen(2))
    database.back.set()
    auditor.close()
    assert database.subjects == ["/v1/1", "/v1/2"]
    auditor.admit("POST")


def test_a_service_that_ends_while_the_database_is_away_leaves_the_entries_in_its_journal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    auditor = Auditor(Database(away=True).audit)
    auditor.add(seen(7))
    auditor.close()
    assert "'/v1/7'" in caplog.text


def test_without_an_audit_log_changes_are_refused_and_reads_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    database = Database(away=True)
    monkeypatch.setattr(stage.engine.audit, "add", database.audit)
    with stage.client(Scope.ADMINISTER) as client:
        client.delete("/v1/history")
        assert database.tried.acquire(timeout=10)
        while client.delete("/v1/history").status_code != 503:
            pass
        answer = client.delete("/v1/history")
        assert "audit" in answer.json()["why"] and answer.headers["retry-after"]
        assert client.get("/v1/applications").status_code == 200
        database.back.set()
