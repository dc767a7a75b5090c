"""The proxy of Spark's pages: paths, headers and redirections stay within their prefix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.testclient import TestClient

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.service import problems
from penstock.service.problems import PathRedactor
from penstock.service.spark_ui.access import (
    Proxy,
    Upstream,
    confined_location,
    content_policy,
    path_below,
    request_origin,
)

PREFIX = "/applications/app-1/ui"
ORIGIN = "http://penstock.example:8441"
SPARK = Upstream("127.0.0.1", 4040, PREFIX)


class Body(httpx.AsyncByteStream):
    """A response body that has not been read yet."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def answered(status: int = 200, *, headers: dict[str, str] | None = None, body: bytes = b"") -> httpx.Response:
    return httpx.Response(status, headers=headers, stream=Body(body))


def showing(spark: Callable[[httpx.Request], httpx.Response]) -> TestClient:
    """An application that proxies the pages of `spark`."""
    app = FastAPI()
    app.state.service = SimpleNamespace(path_redactor=PathRedactor(Home.default()))
    problems.install(app)
    proxy = Proxy(httpx.MockTransport(spark))

    @app.get(PREFIX + "/{path:path}")
    async def page(request: Request) -> StreamingResponse:
        return await proxy.show(request, SPARK, origin=ORIGIN)

    return TestClient(app, base_url=ORIGIN)


def test_spark_gets_its_own_path_and_the_prefix_under_which_it_is_shown() -> None:
    asked: list[httpx.Request] = []

    def spark(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answered(body=b"<p>jobs</p>")

    answer = showing(spark).get(f"{PREFIX}/stages/stage/?id=1&attempt=0&q=a%2Fb")
    assert answer.text == "<p>jobs</p>"
    assert str(asked[0].url) == "http://127.0.0.1:4040/stages/stage/?id=1&attempt=0&q=a%2Fb"
    assert asked[0].headers["x-forwarded-context"] == PREFIX


def test_nothing_that_tells_who_looks_reaches_the_application() -> None:
    asked: list[httpx.Request] = []

    def spark(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answered()

    secret = {"Authorization": "Bearer t0ken", "Cookie": "penstock_spark_1=t0ken", "X-Api-Key": "t0ken"}
    showing(spark).get(f"{PREFIX}/jobs/", headers=secret)
    assert "t0ken" not in repr(asked[0].headers.raw)


def test_an_application_s_page_sets_no_cookie_and_no_policy_of_its_own() -> None:
    def spark(_: httpx.Request) -> httpx.Response:
        own = {"set-cookie": "penstock_spark_1=x", "content-security-policy": "default-src *", "x-other": "1"}
        return answered(headers={**own, "service-worker-allowed": "/"})

    headers = showing(spark).get(f"{PREFIX}/").headers
    assert not {"set-cookie", "x-other", "service-worker-allowed"} & set(headers)
    assert headers["content-security-policy"] == content_policy(ORIGIN, PREFIX)


def test_a_page_s_scripts_reach_its_own_path_only() -> None:
    policy = dict(part.split(" ", 1) for part in content_policy("https://host", PREFIX).split("; "))
    assert policy["connect-src"] == policy["default-src"] == policy["form-action"] == f"https://host{PREFIX}/"
    assert "allow-popups" not in policy["sandbox"] and "allow-top-navigation" not in policy["sandbox"]
    assert policy["worker-src"] == policy["frame-src"] == "'none'"


def test_compressed_pages_pass_as_they_are() -> None:
    def spark(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "gzip"
        return answered(headers={"content-encoding": "gzip"}, body=b"\x1f\x8bnot unpacked here")

    with showing(spark).stream("GET", f"{PREFIX}/", headers={"accept-encoding": "gzip"}) as answer:
        assert b"".join(answer.iter_raw()) == b"\x1f\x8bnot unpacked here"


@pytest.mark.parametrize(
    ("spark_says", "visitor_gets"),
    [
        ("http://127.0.0.1:4040/jobs/", f"{PREFIX}/jobs/"),
        (f"http://127.0.0.1:4040{PREFIX}/jobs/?a=b", f"{PREFIX}/jobs/?a=b"),
        ("/stages/", f"{PREFIX}/stages/"),
        (f"{PREFIX}x/", f"{PREFIX}{PREFIX}x/"),
        ("http://127.0.0.1:22/", None),
        ("//evil.example/", None),
        ("https://evil.example/x", None),
        # Browsers ignore a policy's paths after a redirection: a page could reach its neighbour's this way.
        (f"{PREFIX}/../../app-2/ui/jobs/job/kill/", None),
        (f"http://127.0.0.1:4040{PREFIX}/%2e%2E/../app-2/ui/", None),
        ("/..%5c../app-2/ui/", None),
        ("/a/./../../x", None),
        ("/.\t./x", None),
    ],
)
def test_a_redirection_stays_below_the_path(spark_says: str, visitor_gets: str | None) -> None:
    assert confined_location(spark_says, SPARK) == visitor_gets


def test_a_redirection_elsewhere_is_not_passed_on() -> None:
    client = showing(lambda _: answered(302, headers={"location": "http://169.254.169.254/"}))
    assert "location" not in client.get(f"{PREFIX}/", follow_redirects=False).headers


@pytest.mark.parametrize("path", ["/../../tokens", "/%2e%2e/x", "/a/..", "/..%5cx", "/..%2fx", "/..;a=b/x", "/%2e.;/x"])
def test_no_path_climbs_out(path: str) -> None:
    with pytest.raises(InvalidInput):
        path_below(f"{PREFIX}{path}".encode(), PREFIX)


def test_a_path_stays_encoded_as_it_came() -> None:
    assert path_below(f"{PREFIX}/a%20b/c%3Fd".encode(), PREFIX) == "/a%20b/c%3Fd"
    assert path_below(PREFIX.encode(), PREFIX) == "/"


@pytest.mark.parametrize("host", ["", "a b", "a;script-src *", "a\r\nb", "a,b"])
def test_what_is_no_host_gets_into_no_policy(host: str) -> None:
    with pytest.raises(InvalidInput):
        request_origin("http", host)


def test_a_server_that_is_gone_is_a_problem_and_no_defect() -> None:
    def spark(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    answer = showing(spark).get(f"{PREFIX}/")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == problems.MEDIA_TYPE


def test_a_visitor_who_leaves_half_way_leaves_no_connection_behind() -> None:
    body = Body(b"the first half", b"the other")

    async def left() -> None:
        proxy = Proxy(httpx.MockTransport(lambda _: httpx.Response(200, stream=body)))
        shown = await proxy.show(request_for(f"{PREFIX}/"), SPARK, origin=ORIGIN)
        pieces = cast(AsyncGenerator[bytes, None], shown.body_iterator)
        assert await pieces.__anext__() == b"the first half"
        await pieces.aclose()
        await proxy.close()

    asyncio.run(left())
    assert body.closed


def request_for(path: str) -> Request:
    headers = [(b"host", b"penstock.example")]
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode()}
    return Request({**scope, "query_string": b"", "headers": headers, "server": ("penstock.example", 80)})
