"""The S3 client and `lake check` against a real store, and against stores that fail in known ways."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.errors import LakeError
from penstock.home import Home
from penstock.lake.checks.verdicts import LakeCheck, Outcome, Row, require_reachable, usable
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.lake.s3 import S3ObjectStore, open_store
from tests.support.object_store_contract import ObjectStoreContract

NOBODY = Credentials("nobody", "nothing")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    EmbeddedLake(home).up()
    yield home
    EmbeddedLake(home).down()


@pytest.fixture(scope="module")
def lake(home: Home) -> Lake:
    return Lakes(home).get()


@pytest.fixture(scope="module")
def credentials(home: Home, lake: Lake) -> Credentials:
    return Lakes(home).credentials_of(lake)


@pytest.fixture(scope="module")
def opened(home: Home, lake: Lake) -> S3ObjectStore:
    """A client of the lake: opening one takes longer than most tests."""
    return open_store(home, lake)


@pytest.fixture
def store(opened: S3ObjectStore) -> S3ObjectStore:
    """The lake's store, empty."""
    opened.delete(*[found.key for found in opened.list("")])
    return opened


class TestS3ObjectStore(ObjectStoreContract):
    """The contract, on the embedded lake."""


class Misbehaving(BaseHTTPRequestHandler):
    """A gateway with the same wrong answer for every request."""

    status = 503
    delay_seconds = 0.0

    def answer(self) -> None:
        time.sleep(self.delay_seconds)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


class Stranger(Misbehaving):
    """A gateway of another store: it accepts objects, and has none of the other gateways' objects."""

    status = 200

    def do_GET(self) -> None:
        self.status = 404
        self.answer()


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def misbehaving() -> Iterator[str]:
    with serving(Misbehaving) as url:
        yield url


@pytest.fixture
def stranger() -> Iterator[str]:
    with serving(Stranger) as url:
        yield url


@pytest.fixture
def nobody_listens() -> Iterator[str]:
    # Bound and not listening: connections are refused, and no other process can take the port.
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


def test_wrong_keys_a_missing_bucket_and_an_unreachable_store_are_distinguished(
    lake: Lake, credentials: Credentials, nobody_listens: str
) -> None:
    wrong = {
        "credentials": (lake, Credentials(credentials.access_key, "wrong")),
        "bucket": (replace(lake, bucket="no-such-bucket"), credentials),
        "reached": (replace(lake, endpoints=(nobody_listens,)), credentials),
    }
    for words, (there, known) in wrong.items():
        unusable = S3ObjectStore(there, known, attempts=1)
        for use in (
            lambda store: list(store.list("")),
            lambda store: store.get("k"),
        ):
            with pytest.raises(LakeError) as caught:
                use(unusable)
            assert words in caught.value.problem, caught.value
            assert caught.value.fix
            assert credentials.secret_key not in str(caught.value)


def test_an_unknown_access_key_is_reported(lake: Lake) -> None:
    with pytest.raises(LakeError, match="credentials"):
        list(S3ObjectStore(lake, NOBODY, attempts=1).list(""))


def test_a_busy_store_is_retried_and_then_reported(lake: Lake, misbehaving: str) -> None:
    with pytest.raises(LakeError, match="overloaded"):
        S3ObjectStore(replace(lake, endpoints=(misbehaving,)), NOBODY, attempts=2).get("k")


def test_with_a_dead_gateway_the_next_one_serves(lake: Lake, credentials: Credentials, nobody_listens: str) -> None:
    store = S3ObjectStore(replace(lake, endpoints=(nobody_listens, *lake.endpoints)), credentials, attempts=1)
    store.put("k", b"through the second")
    assert store.get("k") == b"through the second"


def test_a_download_to_an_unwritable_place_is_reported(store: S3ObjectStore, tmp_path: Path) -> None:
    from penstock.errors import MissingRequirement

    store.put("k", b"v")
    with pytest.raises(MissingRequirement):
        store.download("k", tmp_path / "missing directory" / "file")


def outcomes(rows: list[Row]) -> dict[str, Outcome]:
    return {row.feature.partition(" http")[0]: row.verdict.outcome for row in rows}


def test_the_embedded_lake_has_all_that_penstock_can_use_and_the_check_leaves_nothing(
    lake: Lake, credentials: Credentials, store: S3ObjectStore
) -> None:
    seen: list[str] = []
    rows = LakeCheck(lake, credentials, progress=seen.append).run()
    # The embedded lake issues no temporary credentials: it has one user. SeaweedFS keeps directories for a while.
    limited = dict.fromkeys(("temporary credentials", "directories"), Outcome.LIMITED)
    assert outcomes(rows) == {**dict.fromkeys(outcomes(rows), Outcome.OK), **limited}, rows
    assert len(rows) == 15
    assert "multipart upload" in seen
    assert list(store.list("")) == []


def test_wrong_keys_fail_the_check_and_the_rest_is_skipped(lake: Lake) -> None:
    rows = LakeCheck(lake, NOBODY).run()
    assert not usable(rows)
    assert outcomes(rows)["reachable"] is Outcome.OK
    assert outcomes(rows)["credentials"] is Outcome.FAILED
    assert outcomes(rows)["multipart upload"] is Outcome.SKIPPED


def test_a_missing_bucket_fails_the_check(lake: Lake, credentials: Credentials) -> None:
    rows = LakeCheck(replace(lake, bucket="no-such-bucket"), credentials).run()
    assert not usable(rows)
    assert outcomes(rows)["credentials"] is Outcome.OK
    assert outcomes(rows)["bucket"] is Outcome.FAILED


def test_an_unreachable_store_fails_the_check_at_once(lake: Lake, nobody_listens: str) -> None:
    rows = LakeCheck(replace(lake, endpoints=(nobody_listens,)), NOBODY).run()
    assert not usable(rows)
    assert outcomes(rows).pop("reachable") is Outcome.FAILED
    assert set(outcomes(rows).values()) == {Outcome.FAILED, Outcome.SKIPPED}


def test_of_two_gateways_the_dead_one_is_named_and_the_other_is_measured(
    lake: Lake, credentials: Credentials, nobody_listens: str
) -> None:
    rows = LakeCheck(replace(lake, endpoints=(*lake.endpoints, nobody_listens)), credentials).run()
    failed = [row for row in rows if row.verdict.outcome is Outcome.FAILED]
    assert [row.feature for row in failed] == [f"reachable {nobody_listens}"]
    assert f"round trip {lake.endpoints[0]}" in [row.feature for row in rows]


def test_two_ways_into_one_store_are_one_store(lake: Lake, credentials: Credentials, store: S3ObjectStore) -> None:
    both = (lake.endpoints[0], lake.endpoints[0].replace("127.0.0.1", "localhost"))
    rows = LakeCheck(replace(lake, endpoints=both), credentials).run()
    assert outcomes(rows)["one store"] is Outcome.OK
    assert usable(rows)
    assert list(store.list("")) == []


def test_a_gateway_of_another_store_fails_the_check(lake: Lake, credentials: Credentials, stranger: str) -> None:
    rows = LakeCheck(replace(lake, endpoints=(*lake.endpoints, stranger)), credentials).run()
    assert not usable(rows)
    [row] = [row for row in rows if row.feature == "one store"]
    assert row.verdict.outcome is Outcome.FAILED
    assert stranger in row.verdict.measured


def test_a_store_that_only_fails_is_reported_row_by_row(lake: Lake, misbehaving: str) -> None:
    rows = LakeCheck(replace(lake, endpoints=(misbehaving,)), NOBODY).run()
    assert not usable(rows)
    assert outcomes(rows)["credentials"] is Outcome.FAILED


def test_a_lake_about_to_be_added_is_tried_first(lake: Lake, credentials: Credentials, nobody_listens: str) -> None:
    require_reachable(lake, credentials)
    with pytest.raises(LakeError) as caught:
        require_reachable(replace(lake, endpoints=(nobody_listens,)), credentials)
    assert "--no-check" in caught.value.fix
    with pytest.raises(LakeError, match="credentials"):
        require_reachable(lake, NOBODY)
