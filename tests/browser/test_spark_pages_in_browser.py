"""A page of a malicious driver, opened through the service in a real browser: it has its own data, and nothing else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from penstock.clusters.base import WebInterface
from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.processes import free_ports
from penstock.service.access import Scope
from tests.support.browser import Browser
from tests.unit.service.fakes import Stage

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)

PAGE = """<!doctype html><title>jobs</title>
<img src="OUT/picture"><script src="OUT/script.js"></script><iframe src="/"></iframe>
<script>
const tried = (promise) => promise.then((found) => found.status ?? "done", () => "refused");
const attempts = {
  own: () => tried(fetch("api/v1/applications")),
  api: () => tried(fetch("/v1/self")),
  neighbour: () => tried(fetch("/v1/applications/app-2/ui/")),
  elsewhere: () => tried(fetch("OUT/fetched", {mode: "no-cors"})),
  told: async () => navigator.sendBeacon("OUT/beacon") ? "maybe" : "refused",
  window: async () => window.open("/") === null ? "refused" : "done",
  worker: () => tried(navigator.serviceWorker.register("worker.js")),
  cookies: async () => document.cookie,
  console: async () => { try { return frames[0].document.title } catch { return "refused" } },
};
(async () => {
  const results = {};
  for (const name in attempts) results[name] = await attempts[name]();
  window.results = results;
})();
</script>"""


class Handler(BaseHTTPRequestHandler):
    """Answers as a driver that wants to know more, or as the place elsewhere that it would tell; `asked` are paths."""

    asked: list[str]
    elsewhere: str

    def do_GET(self) -> None:
        self.asked.append(self.path)
        page = self.path == "/"
        body = PAGE.replace("OUT", self.elsewhere).encode() if page else b"[]"
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
def answering(elsewhere: str = "") -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    handler = type("Answering", (Handler,), {"asked": asked, "elsewhere": elsewhere})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(stage: Stage) -> Iterator[str]:
    port = free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(stage.app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_malicious_page_gets_its_own_data_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "home")
    with answering() as (outside, told), answering(f"http://127.0.0.1:{outside}") as (driver, asked):
        for _ in range(2):
            application = stage.engine.enqueue(ApplicationSpec("s3a://lake/a.py", SIZE, "a"))
            stage.engine.applications[application.id] = replace(application, state=State.RUNNING)
            stage.engine.interfaces[application.id] = WebInterface("127.0.0.1", driver)
        root = "/v1/applications/app-1/ui/"
        with serving(stage) as url:
            header = stage.client(Scope.ADMINISTER).headers["authorization"]
            granted = httpx.post(f"{url}/v1/browser-access", json={"path": root}, headers={"Authorization": header})
            name, _, value = granted.headers["set-cookie"].partition(";")[0].partition("=")
            page = browser.open("about:blank")
            page.call("Network.setCookie", name=name, value=value, url=url + root, path=root, httpOnly=True)
            page.call("Page.navigate", url=url + root)
            page.until("window.results")
            results = json.loads(page.evaluate("JSON.stringify(results)"))
            assert {cookie["name"] for cookie in page.call("Network.getCookies", urls=[url])["cookies"]} == set()
            page.call("Network.clearBrowserCookies")
            page.close()
    assert "/api/v1/applications" in asked
    assert told == []
    assert results.pop("own") == 200
    assert results.pop("cookies") == ""
    assert results.pop("told") in ("maybe", "refused")  # a beacon does not say; that nothing was told is seen above
    assert set(results.values()) == {"refused"}, results
