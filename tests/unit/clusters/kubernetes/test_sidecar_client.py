"""The answers of a sidecar are read as what submitted code may answer in its place."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.clusters.kubernetes import client as api_client
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import Access, Api
from penstock.clusters.kubernetes.pod import sidecar as server
from penstock.clusters.kubernetes.sidecar_client import SidecarClient

STATUS = {"finished": False, "artefacts": {"driver.log": 3}, "in_lake": []}
PIECE = bytes(1 << 20)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Answer = httpx.Response | Callable[[httpx.Request], httpx.Response]
Sidecar = Callable[[Answer], SidecarClient]


@pytest.fixture(params=["inside the cluster", "through the API server"])
def sidecar(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sidecar:
    inside = request.param == "inside the cluster"

    def answering(answer: Answer) -> SidecarClient:
        api = Api(Access("http://kube.example", TLS, lambda: None, in_cluster=inside))
        serve = (lambda _: answer) if isinstance(answer, httpx.Response) else answer
        client = httpx.Client(base_url="http://kube.example", transport=httpx.MockTransport(serve))
        monkeypatch.setattr(api, "_client", client)

        def stream(method: str, url: str, *, trust_env: bool, **more: Any) -> Any:
            assert not trust_env
            return client.stream(method, url, **more)

        monkeypatch.setattr(httpx, "stream", stream)
        return SidecarClient(api, "lake", "app-1", lambda: "t0ken")

    return answering


class Endless:
    """A body without an end. It counts the bytes that were read of it."""

    def __init__(self) -> None:
        self.given = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.given < 1 << 30:
            self.given += len(PIECE)
            yield PIECE


@pytest.mark.parametrize("status_code", [200, 500])
def test_no_more_of_an_answer_is_read_than_a_sidecar_would_send(sidecar: Sidecar, status_code: int) -> None:
    for ask in (
        lambda client: client.status("10.0.0.1"),
        lambda client: client.artifact("10.0.0.1", "driver.log", 0, 4 << 20),
        lambda client: client.published("10.0.0.1", "session.json"),
        lambda client: client.pages("10.0.0.1"),
    ):
        body = Endless()
        assert ask(sidecar(httpx.Response(status_code, content=body))) is None
        assert body.given <= 9 << 20


def test_a_body_that_takes_too_long_is_given_up(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "_MOST_BODY_SECONDS", -1.0)
    assert sidecar(httpx.Response(200, content=iter([b"{", b"}"]))).status("10.0.0.1") is None


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"[" * 100_000,
        b"[]",
        b"{}",
        json.dumps({**STATUS, "artefacts": {"driver.log": "3"}}).encode(),
        json.dumps({**STATUS, "artefacts": {"driver.log": -1}}).encode(),
        json.dumps({**STATUS, "artefacts": ["driver.log"]}).encode(),
        json.dumps({**STATUS, "artefacts": {"\ud800": 1}}).encode(),
        json.dumps({**STATUS, "in_lake": [{}]}).encode(),
        json.dumps({**STATUS, "finished": "yes"}).encode(),
    ],
)
def test_what_is_no_status_is_none(sidecar: Sidecar, answer: bytes) -> None:
    assert sidecar(httpx.Response(200, content=iter([answer]))).status("10.0.0.1") is None


def test_an_honest_status_is_one(sidecar: Sidecar) -> None:
    assert sidecar(httpx.Response(200, content=iter([json.dumps(STATUS).encode()]))).status("10.0.0.1") == STATUS


@pytest.mark.parametrize("port", [0, -1, 65536, "4040", None])
def test_pages_have_a_port(sidecar: Sidecar, port: object) -> None:
    body = json.dumps({"port": port, "key": None}).encode()
    assert sidecar(httpx.Response(200, content=iter([body]))).pages("10.0.0.1") is None


def test_a_failed_request_is_no_answer_and_without_an_address_none_is_made(sidecar: Sidecar) -> None:
    assert sidecar(httpx.Response(503, content=iter([b"x"]))).artifact("10.0.0.1", "a", 0, 4) is None
    assert sidecar(httpx.Response(200, content=iter([b"x"]))).artifact(None, "a", 0, 4) is None
    assert sidecar(httpx.Response(200, content=iter([b"x"]))).artifact("10.0.0.1", "a", 0, 4) == b"x"


@pytest.mark.parametrize(
    "name", ["driver.log", "events/a b", "why?", "half%20#1", "ß", pytest.param(os.fsdecode(b"\xff"), id="no text")]
)
def test_artifacts_of_every_name_are_found(
    sidecar: Sidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(layout, "ARTIFACTS", tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"0123456789")

    def serve(request: httpx.Request) -> httpx.Response:
        answers: list[httpx.Response] = []
        handler = object.__new__(server._Handler)
        handler.path = "/artefacts/" + request.url.raw_path.decode("ascii").partition("/artefacts/")[2]
        monkeypatch.setattr(handler, "_authorized", lambda: True)
        monkeypatch.setattr(
            handler, "_answer", lambda body, status=200: answers.append(httpx.Response(status, content=iter([body])))
        )
        handler.do_GET()
        return answers[0]

    assert sidecar(serve).artifact("10.0.0.1", name, 2, 4) == b"2345"
    assert sidecar(serve).artifact("10.0.0.1", f"{name}-none", 0, 4) is None
