"""Penstock's S3 client in Python behind a faulty gateway: content arrives intact, or is sent again."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.chaos.faults import Answer, CutAnswer, Fault, FlipUpload, Plan, Rule
from benchmarks.chaos.gateways import Gateway
from penstock.errors import LakeError
from penstock.lake.checks.verdicts import require_usable
from penstock.lake.model import Credentials, Lake
from penstock.lake.s3 import S3ObjectStore
from penstock.processes import free_ports

CONTENT = b"what an application wrote\n" * 1_000
_NOTHING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
_BAD_DIGEST = b"<Error><Code>BadDigest</Code><Message>not what was sent</Message></Error>"


class Handler(BaseHTTPRequestHandler):
    """A store of one object that checks incoming content against its Content-MD5 only."""

    protocol_version = "HTTP/1.1"
    kept = CONTENT

    def do_GET(self) -> None:
        self._answer(200, _NOTHING if "list-type" in self.path else type(self).kept)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        said = self.headers.get("Content-MD5")
        if said and said != base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode():
            self._answer(400, _BAD_DIGEST)
        else:
            type(self).kept = content
            self._answer(200, b"")

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    Handler.kept = CONTENT
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        made = Gateway("g0", f"127.0.0.1:{server.server_port}", tmp_path / "faults.jsonl")
        yield made
        made.close()
        server.shutdown()


OWN = Credentials("a", "b")


def lake(*endpoints: str) -> Lake:
    return Lake("l", endpoints, "bucket", "")


def store(gateway: Gateway, fault: Fault, times: int) -> S3ObjectStore:
    gateway.follow(Plan("7", (Rule(fault, 1.0, at_most=times),)))
    return S3ObjectStore(lake(gateway.endpoint), OWN)


@pytest.mark.parametrize("fault", [CutAnswer(), CutAnswer(reset=True)])
def test_half_an_answer_is_asked_for_again(gateway: Gateway, fault: Fault) -> None:
    assert store(gateway, fault, 2).get("a") == CONTENT


def test_endlessly_truncated_responses_are_reported(gateway: Gateway) -> None:
    with pytest.raises(LakeError) as raised:
        store(gateway, CutAnswer(), 99).get("a")
    assert "break off" in raised.value.problem
    assert raised.value.why
    assert "penstock lake check" in raised.value.fix


def test_what_arrived_otherwise_is_sent_again(gateway: Gateway) -> None:
    store(gateway, FlipUpload(), 1).put("a", b"other " + CONTENT)
    assert Handler.kept == b"other " + CONTENT


def test_an_upload_that_is_always_damaged_is_reported_and_not_stored(gateway: Gateway) -> None:
    with pytest.raises(LakeError) as raised:
        store(gateway, FlipUpload(), 99).put("a", b"other " + CONTENT)
    assert "BadDigest" in raised.value.why
    assert Handler.kept == CONTENT


def test_one_refusal_while_it_starts_stops_no_application(gateway: Gateway) -> None:
    gateway.follow(Plan("7", (Rule(Answer(503, "SlowDown"), 1.0, at_most=1),)))
    require_usable(lake(gateway.endpoint), OWN)


def test_a_dead_gateway_among_living_ones_stops_no_application(gateway: Gateway) -> None:
    dead = f"http://127.0.0.1:{free_ports(1)[0]}"
    require_usable(lake(dead, gateway.endpoint), OWN)
    with pytest.raises(LakeError) as raised:
        require_usable(lake(dead), OWN)
    assert dead in raised.value.why
