"""The doctor's verdicts on what it sees."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from penstock import doctor
from penstock.engine.tokens import Scope, Token
from penstock.errors import MissingRequirement
from penstock.lake.checks.verdicts import Outcome, Verdict
from penstock.model import Capacity

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
GIB = 1 << 30


def token(name: str, expires_in: timedelta | None = None, scope: Scope = Scope.READ) -> Token:
    return Token(name, name, {"*": scope}, "", NOW, NOW + expires_in if expires_in else None)


def test_an_error_is_shown_as_a_command_shows_it() -> None:
    found = doctor.failed(MissingRequirement("Java is not installed", why="Spark runs on it", fix="install it"))
    assert found == Verdict(Outcome.FAILED, "Java is not installed: Spark runs on it", "install it")


def test_a_machine_too_small_for_the_usual_application_is_said_to_be() -> None:
    assert doctor.room(Capacity(cores=4, memory_bytes=16 * GIB)).outcome is Outcome.OK
    assert doctor.room(Capacity(cores=1, memory_bytes=GIB // 2)).outcome is Outcome.FAILED


def test_a_cluster_that_waits_for_its_first_node_is_no_failure() -> None:
    found = doctor.room(Capacity(cores=0, memory_bytes=0, elastic=True))
    assert found.outcome is Outcome.LIMITED
    assert "waits for nodes" in found.consequence


@pytest.mark.parametrize(
    ("free", "outcome"), [(GIB, Outcome.FAILED), (5 * GIB, Outcome.LIMITED), (50 * GIB, Outcome.OK)]
)
def test_a_nearly_full_disk_is_reported(free: int, outcome: Outcome) -> None:
    assert doctor.disk(free, Path("/home")).outcome is outcome


def test_a_secret_others_can_read_comes_with_the_command_that_closes_it() -> None:
    found = doctor.private({Path("/h/lake/credentials"): 0o100640, Path("/h"): 0o40700})
    assert (found.outcome, found.consequence) == (Outcome.FAILED, "chmod go= '/h/lake/credentials'")
    assert doctor.private({Path("/h"): 0o40700}).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("version", "outcome"),
    [(None, Outcome.OK), ("0003", Outcome.OK), ("0001", Outcome.LIMITED), ("0009", Outcome.FAILED)],
)
def test_records_of_another_release_are_noticed(version: str | None, outcome: Outcome) -> None:
    assert doctor.records_row(version, "0003").outcome is outcome


def test_what_waits_for_nobody_is_noticed() -> None:
    assert doctor.attended(0, 3, dispatched=False).consequence == "start one: penstock serve"
    assert doctor.attended(2, 3, dispatched=True).outcome is Outcome.LIMITED
    assert doctor.attended(0, 3, dispatched=True).outcome is Outcome.OK


def test_tokens_about_to_expire_are_named() -> None:
    known = [token("ci", timedelta(days=3)), token("old", timedelta(days=-3)), token("ada", timedelta(days=90))]
    found = doctor.tokens(known, NOW)
    assert (found.outcome, found.measured) == (Outcome.LIMITED, "2 valid; expiring soon: ci")
    assert doctor.tokens([token("old", timedelta(days=-3))], NOW).outcome is Outcome.FAILED
    assert "without expiry" in doctor.tokens([token("root", scope=Scope.ADMINISTER)], NOW).measured
    assert doctor.tokens([], NOW).outcome is Outcome.OK


@pytest.mark.parametrize(("days", "outcome"), [(-1, Outcome.FAILED), (3, Outcome.LIMITED), (90, Outcome.OK)])
def test_a_certificate_is_renewed_in_time(days: int, outcome: Outcome) -> None:
    assert doctor.certificate(NOW + timedelta(days=days), NOW).outcome is outcome


def test_few_open_files_limit_a_service() -> None:
    assert doctor.open_files(1024).outcome is Outcome.LIMITED
    assert doctor.open_files(65536).outcome is Outcome.OK
