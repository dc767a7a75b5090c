"""The catalog's processes renew the credentials of their lake, end when they cannot, and are replaced when they end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from penstock.engine import catalog_service
from penstock.engine.catalog_service import CatalogProcess, IcebergCatalog
from penstock.errors import CatalogError, LakeError, StateError
from penstock.home import Home
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
    printed: str = ""
    code: int = 3
    ended: bool = False

    def end(self) -> None:
        self.ended = True

    def ended_within(self, _: float) -> bool:
        return self.ended

    def lines(self) -> Iterator[str]:
        return iter((self.printed,) if self.printed else ())

    def last_errors(self) -> list[str]:
        return ["Out of memory"]

    ending = "exit code 3"


def lease(key: str, *, age: float = 0.0) -> Lease:
    issued = time.time() - age
    return Lease(Credentials(key, "secret"), issued, issued + 900)


def access(
    given: Lease | None = None, program: catalog_service._Program = catalog_service._METASTORE
) -> catalog_service._Access:
    return catalog_service._Access(program, LAKE, OWN, given)


@pytest.fixture
def java(tmp_path: Path) -> Java:
    return Java(tmp_path)


@pytest.fixture
def service(java: Java) -> CatalogProcess:
    return CatalogProcess("thrift://127.0.0.1:1", access(), cast("ToolRun", java))


def test_temporary_credentials_are_replaced_where_the_service_reads_them(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_service, "credentials_for", lambda lake, own, name: lease(f"for {lake.name}"))
    with catalog_service._serving("thrift://127.0.0.1", "1", access(lease("AK1", age=600)), cast("ToolRun", java)):
        within((java.private / CREDENTIALS_FILE).exists)
    found = parse_lease((java.private / CREDENTIALS_FILE).read_text("utf-8"))
    assert found is not None
    assert found.credentials.access_key == "for lake"
    assert not java.ended


def test_a_service_whose_credentials_cannot_be_renewed_ends_and_says_why(service: CatalogProcess, java: Java) -> None:
    service.end(LakeError("The lake credentials of metastore-1 ended and could not be renewed"))
    assert java.ended
    with pytest.raises(LakeError, match="could not be renewed"):
        service.wait()


def test_a_service_that_was_ended_is_no_error_and_one_that_ended_by_itself_is(
    service: CatalogProcess, java: Java
) -> None:
    with pytest.raises(CatalogError, match="ended") as raised:
        service.wait()
    assert "Out of memory" in raised.value.why
    assert "exit code 3" in raised.value.why
    service.end()
    service.wait()
    assert java.ended


class Programs:
    """Runs of a program in the place of Java; each prints a port of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.started: list[Java] = []
        self.serving = True
        self.left = 0

    @contextlib.contextmanager
    def run(self, *_: object) -> Iterator[tuple[catalog_service._Access, Java]]:
        java = Java(self._root, f"{len(self.started) + 1}\n" if self.serving else "")
        self.started.append(java)
        try:
            yield access(program=catalog_service._ICEBERG), java
        finally:
            self.left += 1


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path)
    monkeypatch.setattr(catalog_service, "_running", made.run)
    return made


def test_the_iceberg_catalog_is_started_once_and_again_after_it_ended(programs: Programs, tmp_path: Path) -> None:
    catalog = IcebergCatalog(Home(tmp_path))
    assert not programs.started
    assert [catalog.url(), catalog.url()] == ["http://127.0.0.1:1"] * 2
    programs.started[0].ended = True
    assert catalog.url() == "http://127.0.0.1:2"
    assert programs.left == 1
    catalog.close()
    assert programs.left == 2


def test_an_iceberg_catalog_that_refuses_connections_is_replaced_once(programs: Programs, tmp_path: Path) -> None:
    catalog = IcebergCatalog(Home(tmp_path))
    first = catalog.url()
    second = catalog.url(lost=first, refuses=True)
    # Another request lost the same one.
    assert catalog.url(lost=first, refuses=True) == second != first
    catalog.close()


def test_an_iceberg_catalog_that_breaks_a_request_off_is_replaced_if_it_has_ended(
    programs: Programs, tmp_path: Path
) -> None:
    catalog = IcebergCatalog(Home(tmp_path))
    first = catalog.url()
    assert catalog.url(lost=first) == first
    programs.started[0].ended = True
    assert catalog.url(lost=first) != first
    catalog.close()


def test_an_iceberg_catalog_that_ends_before_it_serves_says_why(programs: Programs, tmp_path: Path) -> None:
    catalog = IcebergCatalog(Home(tmp_path))
    programs.serving = False
    with pytest.raises(CatalogError, match="An Iceberg catalog ended") as raised:
        catalog.url()
    assert "Out of memory" in raised.value.why
    assert programs.left == 1
    programs.serving = True
    assert catalog.url() == "http://127.0.0.1:2"
    catalog.close()


def place(home: Home, program: catalog_service._Program) -> contextlib.AbstractContextManager[Path]:
    return catalog_service._place(program, home, LAKE)


def test_each_service_of_a_home_has_an_iceberg_catalog_with_files_of_its_own(tmp_path: Path) -> None:
    home, program = Home(tmp_path), catalog_service._ICEBERG
    with place(home, program) as first, place(home, program) as second:
        assert (first, second) == (tmp_path / "iceberg" / "lake", tmp_path / "iceberg" / "lake-2")
    with place(home, program) as again:
        assert again == first


def test_what_a_killed_iceberg_catalog_left_is_removed_and_nothing_of_a_running_one(tmp_path: Path) -> None:
    home, program = Home(tmp_path), catalog_service._ICEBERG
    with place(home, program) as running:
        killed = running.with_name("lake-7")
        for directory in (running, killed):
            directory.mkdir(parents=True)
            (directory / "credentials").touch()
        with place(home, program):
            assert not killed.exists()
            assert (running / "credentials").exists()


def test_a_lake_has_one_metastore_service(tmp_path: Path) -> None:
    home, program = Home(tmp_path), catalog_service._METASTORE
    with place(home, program), pytest.raises(StateError, match="running already"), place(home, program):
        pass
