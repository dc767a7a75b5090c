"""A metastore service keeps the credentials of its lake, and ends when it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from penstock.engine import catalog_service
from penstock.engine.catalog_service import MetastoreService
from penstock.errors import CatalogError, LakeError
from penstock.lake.model import Credentials, Lake
from penstock.lake.settings import CREDENTIALS_FILE, parse_lease
from penstock.lake.sts import Lease
from penstock.runtime.tool import ToolRun
from tests.support.waiting import within

LAKE = Lake("lake", ("http://127.0.0.1:1",), "bucket", "file:lake")
OWN = Credentials("OWN", "secret")


@dataclass
class Java:
    """The service's process, which ends when it is asked to."""

    private: Path
    ended: bool = field(default=False)

    def end(self) -> None:
        self.ended = True

    def lines(self) -> Iterator[str]:
        return iter(())

    def last_errors(self) -> list[str]:
        return ["Out of memory"]

    ending = "exit code 3"


def lease(key: str, *, age: float = 0.0) -> Lease:
    issued = time.time() - age
    return Lease(Credentials(key, "secret"), issued, issued + 900)


@pytest.fixture
def java(tmp_path: Path) -> Java:
    return Java(tmp_path)


@pytest.fixture
def service(java: Java) -> MetastoreService:
    return MetastoreService("thrift://127.0.0.1:1", LAKE, cast("ToolRun", java))


def test_temporary_credentials_are_replaced_where_the_service_reads_them(
    service: MetastoreService, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_service, "credentials_for", lambda lake, own, name: lease(f"for {lake.name}"))
    renewal = catalog_service._renewal("metastore-1", service, OWN, lease("AK1", age=600))
    within((java.private / CREDENTIALS_FILE).exists)
    renewal.close()
    found = parse_lease((java.private / CREDENTIALS_FILE).read_text("utf-8"))
    assert found is not None
    assert found.credentials.access_key == "for lake"
    assert not java.ended


def test_a_service_whose_credentials_cannot_be_renewed_ends_and_says_why(service: MetastoreService, java: Java) -> None:
    service.end(LakeError("The lake credentials of metastore-1 ended and could not be renewed"))
    assert java.ended
    with pytest.raises(LakeError, match="could not be renewed"):
        service.wait()


def test_a_service_that_was_ended_is_no_error_and_one_that_ended_by_itself_is(
    service: MetastoreService, java: Java
) -> None:
    with pytest.raises(CatalogError, match="ended") as raised:
        service.wait()
    assert "Out of memory" in raised.value.why
    assert "exit code 3" in raised.value.why
    service.end()
    service.wait()
    assert java.ended
