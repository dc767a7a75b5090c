"""The sidecar's answers over real sockets, to the engine and to executors only."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.pod.executor import LogForwarder
from penstock.clusters.kubernetes.pod.sidecar import serve

TOKEN = "t0ken"


class Known:
    released = False

    def status(self) -> dict[str, object]:
        return {"finished": False}

    def pages(self) -> dict[str, object]:
        return {"port": None, "key": None}

    def release(self) -> None:
        self.released = True


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(layout, "WORK", tmp_path)
    monkeypatch.setattr(layout, "ARTIFACTS", tmp_path / "artefacts")
    monkeypatch.setattr(layout, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(layout, "NODES", tmp_path / "cluster" / "nodes")
    (tmp_path / "artefacts").mkdir()
    (tmp_path / "ends").mkdir()
    return tmp_path


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def port(work: Path, known: Known) -> Iterator[int]:
    server = serve(known, TOKEN, port=0)
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def ask(port: int, method: str, path: str, body: bytes = b"", token: str = TOKEN) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=body, headers={layout.TOKEN_HEADER: token})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_answers_who_knows_the_token_and_nobody_else(port: int) -> None:
    assert ask(port, "GET", "/status") == (200, b'{"finished": false}')
    assert ask(port, "GET", "/status", token="guess") == (403, b"")
    assert ask(port, "POST", "/stop", token="") == (403, b"")


def test_a_piece_of_an_artifact_is_given_from_where_it_is_asked(port: int, work: Path) -> None:
    (work / "artefacts" / "driver.out").write_bytes(b"0123456789")
    assert ask(port, "GET", "/artefacts/driver.out?start=4&at_most=3") == (200, b"456")
    assert ask(port, "GET", "/artefacts/driver.out?start=10") == (200, b"")
    assert ask(port, "GET", "/artefacts/none")[0] == 404


@pytest.mark.parametrize("name", ["../secret", "%2e%2e/secret", "/etc/passwd", "a/../../secret"])
def test_nothing_but_artifacts_is_given(port: int, work: Path, name: str) -> None:
    (work / "secret").write_text("secret")
    assert ask(port, "GET", f"/artefacts/{name}") == (404, b"")


def test_what_the_driver_published_is_given_and_nothing_beside_it(port: int, work: Path) -> None:
    (work / "published").mkdir()
    (work / "published" / "session.json").write_text("{}")
    (work / "other").write_text("other")
    assert ask(port, "GET", "/published/session.json") == (200, b"{}")
    assert ask(port, "GET", "/published/none") == (404, b"")
    assert ask(port, "GET", "/published/../other") == (404, b"")
    assert ask(port, "GET", "/published/session.json", token="guess") == (403, b"")


def test_an_executor_s_node_is_known_by_its_address(port: int, work: Path) -> None:
    assert ask(port, "POST", "/nodes/10.1.2.3", b"worker-7.example")[0] == 200
    assert ask(port, "POST", "/nodes/fd00::7", b"worker-8")[0] == 200
    assert (work / "cluster" / "nodes" / "10.1.2.3").read_text() == "worker-7.example"
    assert (work / "cluster" / "nodes" / "fd00::7").read_text() == "worker-8"
    for address, name in (
        ("..", b"a"),
        ("10.1.2", b"a"),
        ("10.1.2.4", b"A/b"),
        ("10.1.2.4", b""),
        ("10.1.2.4", b"a\n"),
    ):
        assert ask(port, "POST", f"/nodes/{address}", name)[0] in (400, 404)
    assert len(list((work / "cluster" / "nodes").iterdir())) == 2


def test_a_way_that_is_not_asked_for_as_one_is_none(port: int) -> None:
    assert ask(port, "GET", "/tunnel/4040")[0] == 426
    assert ask(port, "GET", "/tunnel/4040", token="guess")[0] == 403


def test_orders_reach_the_driver_s_container_as_files(port: int, work: Path, known: Known) -> None:
    for order in ("stop", "kill"):
        assert ask(port, "POST", f"/{order}")[0] == 200
        assert (work / order).exists()
    ask(port, "POST", "/release")
    assert known.released


def test_a_body_without_bounds_is_not_read(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("POST", "/executors/1/log?offset=0")
    connection.putheader(layout.TOKEN_HEADER, TOKEN)
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_what_an_executor_says_arrives_once_and_in_order(port: int, work: Path) -> None:
    forwarder = LogForwarder("127.0.0.1", port, "3", TOKEN)
    for number in range(1000):
        forwarder.write(f"line {number}\n".encode())
    forwarder.close({"exit_code": 0})
    said = (work / "artefacts" / "executor-3.log").read_text()
    assert said == "".join(f"line {number}\n" for number in range(1000))
    assert json.loads((work / "ends" / "executor-3.json").read_text()) == {"exit_code": 0}


def test_a_piece_that_is_sent_again_is_not_written_again(port: int, work: Path) -> None:
    ask(port, "POST", "/executors/1/log?offset=0", b"abc")
    ask(port, "POST", "/executors/1/log?offset=0", b"abcd")
    assert (work / "artefacts" / "executor-1.log").read_bytes() == b"abcd"


def test_an_interrupted_sidecar_loses_no_lines(work: Path, known: Known) -> None:
    first = serve(known, TOKEN, port=0)
    port = int(first.server_address[1])
    first.shutdown()
    first.server_close()
    forwarder = LogForwarder("127.0.0.1", port, "1", TOKEN)
    forwarder.write(b"before ")
    back: list[Any] = []
    timer = threading.Timer(0.8, lambda: back.append(serve(known, TOKEN, port=port)))
    timer.start()
    timer.join()
    forwarder.write(b"after")
    forwarder.close({"exit_code": 0})
    back[0].shutdown()
    back[0].server_close()
    assert (work / "artefacts" / "executor-1.log").read_bytes() == b"before after"
