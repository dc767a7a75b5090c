"""The answers of a sidecar are read as what submitted code may answer in its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from penstock.clusters.kubernetes import client as api_client
from penstock.clusters.kubernetes.client import Access, Api
from penstock.clusters.kubernetes.sidecar_client import SidecarClient

STATUS = {"finished": False, "artefacts": {"driver.log": 3}, "in_lake": []}
PIECE = bytes(1 << 20)

Sidecar = Callable[[httpx.Response], SidecarClient]


@pytest.fixture(params=["inside the cluster", "through the API server"])
def sidecar(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sidecar:
    inside = request.param == "inside the cluster"

    def answering(answer: httpx.Response) -> SidecarClient:
        api = Api(Access("http://kube.example", None, lambda: None, in_cluster=inside))
        client = httpx.Client(base_url="http://kube.example", transport=httpx.MockTransport(lambda _: answer))
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
