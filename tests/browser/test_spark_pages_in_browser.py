"""A page of a malicious driver, opened through the service in a real browser, can read its own data only.

The page is opened in the console's tab of a signed-in user, where a page of the console's origin could read the token.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from penstock.clusters.backend import WebInterface
from penstock.engine.tokens import Scope
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.service.app import ByPort
from penstock.service.spark_ui.access import SparkOrigin
from tests.support.browser import Browser, Page
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)

PAGE = """<!doctype html><title>jobs</title>
<img src="OUT/picture"><script src="OUT/script.js"></script><iframe src="/" onload="window.framed = true"></iframe>
<script>
// Until its document comes, a frame has an empty one of the page's own origin.
const frame = async () => {
  while (!window.framed) await new Promise((done) => setTimeout(done, 10));
  return frames[0];
};
const tried = (promise) => promise.then((found) => found.status ?? "done", () => "refused");
const attempts = {
  own: () => tried(fetch("api/v1/applications")),
  api: () => tried(fetch("/v1/self")),
  console_api: () => tried(fetch("CONSOLE/v1/self")),
  console_page: () => tried(fetch("CONSOLE/", {mode: "no-cors"})),
  neighbour: () => tried(fetch("/applications/app-2/ui/")),
  token: async () => sessionStorage.getItem("penstock.token") ?? "refused",
  last_token: async () => localStorage.getItem("penstock.last-token") ?? "refused",
  elsewhere: () => tried(fetch("OUT/fetched", {mode: "no-cors"})),
  beacon: async () => navigator.sendBeacon("OUT/beacon") ? "maybe" : "refused",
  window: async () => window.open("/") === null ? "refused" : "done",
  worker: () => tried(navigator.serviceWorker.register("worker.js")),
  cookies: async () => document.cookie,
  console: async () => { try { return (await frame()).document.title } catch { return "refused" } },
};
(async () => {
  const results = {};
  for (const name in attempts) results[name] = await attempts[name]();
  window.results = results;
})();
</script>"""


class Handler(BaseHTTPRequestHandler):
    """Answer as a curious driver, or as the outside server it would send data to; `asked` receives the paths."""

    asked: list[str]
    elsewhere: str
    console: list[str]
    """The console's address, once it is known."""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        page = self.path == "/"
        body = PAGE.replace("OUT", self.elsewhere).replace("CONSOLE", "".join(self.console)).encode() if page else b"[]"
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if page else "application/json")
        self.send_header("Content-Security-Policy", "default-src * 'unsafe-inline'")
        self.send_header("Set-Cookie", "planted=1; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def answering(elsewhere: str = "", console: list[str] | None = None) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    handler = type("Answering", (Handler,), {"asked": asked, "elsewhere": elsewhere, "console": console or []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(stage: Stage) -> Iterator[tuple[str, str]]:
    """The origins of the console and of Spark's pages."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    console, spark = (listener.getsockname()[1] for listener in listeners)
    stage.service.spark_origin = SparkOrigin(spark)
    config = uvicorn.Config(ByPort(stage.app, {spark: stage.spark_app}), log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": listeners}, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{console}", f"http://127.0.0.1:{spark}"
    finally:
        server.should_exit = True
        thread.join(10)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "home")


def running(stage: Stage, driver: int) -> str:
    application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", SIZE, "a"))
    stage.engine.submitted[application.id] = replace(application, state=State.RUNNING)
    stage.engine.interfaces[application.id] = WebInterface("127.0.0.1", driver)
    return application.id


def signed_in(browser: Browser, stage: Stage, console: str) -> Page:
    token = stage.client(Scope.ADMINISTER).headers["authorization"].removeprefix("Bearer ")
    page = browser.open(f"{console}/#token={token}")
    page.until("sessionStorage.getItem('penstock.token')")
    page.until("document.querySelector('.link-state.on') !== null")
    return page


def test_a_malicious_page_gets_its_own_data_and_nothing_else(browser: Browser, stage: Stage) -> None:
    known: list[str] = [""]
    with answering() as (outside, received), answering(f"http://127.0.0.1:{outside}", known) as (driver, asked):
        mine, _ = running(stage, driver), running(stage, driver)
        with serving(stage) as (console, spark):
            known[0] = console
            page = signed_in(browser, stage, console)
            # As the console does, but in the same tab: an opener, or a user who follows a link, opens it there.
            opened = f"import('./console/transport.js').then((api) => api.post('v1/applications/{mine}/ui'))"
            link = page.evaluate(f"{opened}.then(({{url}}) => url)")
            assert link.startswith(f"{spark}/enter?ticket=")
            page.evaluate(f"location.href = {json.dumps(link)}")
            page.until("window.results")
            assert page.evaluate("location.href") == f"{spark}/applications/{mine}/ui/"
            results = json.loads(page.evaluate("JSON.stringify(results)"))
            cookies = page.call("Network.getCookies", urls=[f"{console}/", f"{spark}/", f"{spark}/applications/app-2/"])
            assert cookies["cookies"] == []
            # Neither the page's address nor the browser's history contains the ticket.
            assert "ticket" not in page.evaluate("document.referrer") + page.evaluate("document.URL")
            page.call("Network.clearBrowserCookies")
            page.close()
    assert "/api/v1/applications" in asked
    assert received == []
    assert results.pop("own") == 200
    assert results.pop("cookies") == ""
    assert results.pop("beacon") in ("maybe", "refused")  # reports no outcome; `received` shows that nothing arrived
    assert set(results.values()) == {"refused"}, results


def test_the_console_opens_sparks_pages_at_their_own_origin(browser: Browser, stage: Stage) -> None:
    with answering() as (driver, asked), serving(stage) as (console, spark):
        mine = running(stage, driver)
        page = signed_in(browser, stage, console)
        page.evaluate("window.opened = []; window.open = (...given) => window.opened.push(given)")
        page.evaluate(f"location.hash = '/application/{mine}'")
        page.until("document.querySelector('.head button') !== null")
        page.press("u")
        ((address, _, features),) = page.until("opened.length ? opened : null")
        assert address.startswith(f"{spark}/enter?ticket=")
        assert features == "noopener"
        page.close()
    assert asked == []
