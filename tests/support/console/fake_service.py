"""A service for the console's tests: its real pages over canned answers, and an event stream that the test feeds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from penstock.service.console import router
from tests.support.console import places, world

TOKEN = "penstock_1_right"


class FakeService:
    """`asked` are the requests that changed something, as (method, path, body, headers).

    `log` answers for every log, from a byte on.
    """

    def __init__(self) -> None:
        self.applications = {item["id"]: item for item in world.applications()}
        self.scopes = ["read", "submit", "administer"]
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []
        self.down = False
        self.log: Callable[[int], StreamingResponse] = lambda _: StreamingResponse(
            iter([world.LOG]), media_type="text/plain", headers={"Penstock-Log-Start": "0"}
        )
        self.url = ""
        self._listeners: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]]] = []

    def send_event(self, event: str, data: Any) -> None:
        """Send an event to every page that listens."""
        for loop, queue in self._listeners:
            loop.call_soon_threadsafe(queue.put_nowait, f"event: {event}\ndata: {json.dumps(data)}\n\n")

    def change(self, application_id: str, **values: Any) -> None:
        self.applications[application_id] |= values
        self.send_event("application", self.applications[application_id])

    async def answer(self, request: Request) -> Any:
        path, query = request.url.path.removeprefix("/v1/"), request.query_params
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "This needs a token", "it is not known here", "penstock token create")
        if self.down:
            return problem(503, "The database does not answer", "it is being started", "wait a moment")
        if request.method != "GET":
            body = await request.body()
            self.asked.append(
                (
                    request.method,
                    path,
                    json.loads(body or b"{}") if path[:5] != "files" else body,
                    dict(request.headers),
                )
            )
            return self._changed(request.method, path)
        if path == "changes":
            return StreamingResponse(self._stream(), media_type="text/event-stream")
        noun, *parts = path.split("/")
        if noun != "applications":
            return self._rest(path)
        return self._application(parts, query) if parts else self._page(query)

    def _changed(self, method: str, path: str) -> Any:
        if path == "applications" or path.endswith("/rerun"):
            made = world.application(90, "made-here", "accepted", age=0)
            self.applications[made["id"]] = made
            return JSONResponse(made, 202)
        if path == "tokens":
            return JSONResponse({"id": "9", "name": "new", "token": "penstock_9_secret"}, 201)
        if path.startswith("files/"):
            return JSONResponse({"address": "s3a://lake/penstock/files/job.py"}, 201)
        if path.endswith("/stop"):
            return JSONResponse(self.applications[path.split("/")[1]], 202)
        return JSONResponse({})

    def _page(self, query: Any) -> Any:
        wanted = set(query.getlist("state"))
        found = [item for item in self.applications.values() if not wanted or item["state"] in wanted]
        found = [item for item in found if query.get("search", "") in item["spec"]["name"]]
        found = [item for item in found if "tag" not in query or query["tag"] in item["spec"]["tags"]]
        found.sort(key=lambda item: item["submitted_at"], reverse=True)
        start, limit = int(query.get("page", 0)), int(query.get("limit", 50))
        more = start + limit < len(found)
        return {"items": found[start : start + limit], "next": str(start + limit) if more else None}

    def _application(self, parts: list[str], query: Any) -> Any:
        item = self.applications.get(parts[0])
        if item is None:
            return problem(404, f"There is no application {parts[0]}", "", "penstock apps lists them")
        if parts[1:] == ["events"]:
            return {"items": world.events(item)}
        if parts[1:] == ["deliveries"]:
            return {"items": world.deliveries(item)}
        if parts[1:] == ["logs"]:
            return {
                "items": [
                    {"name": name, "bytes": None}
                    for name in ("driver.err", "driver.log", "driver.out", "executor-1.log", "executor-2.log")
                ]
            }
        if parts[1:2] == ["logs"]:
            return self.log(int(query.get("start", 0)))
        return item

    def _rest(self, path: str) -> Any:
        if path.endswith("/preview"):
            return places.preview()
        if path.startswith("tables/"):
            return next(one for one in places.tables() if path == f"tables/{one['database']}.{one['name']}")
        if path.endswith("/address"):
            return {"address": "sc://localhost:15002/;token=abc"}
        if path == "self":
            return {**places.caller(), "scopes": self.scopes}
        return places.answers()[path]

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.append((asyncio.get_running_loop(), queue))
        yield ": here\n\n"
        yield f"event: queue\ndata: {json.dumps(places.queue())}\n\n"
        while True:
            yield await queue.get()


def problem(status: int, text: str, why: str, fix: str) -> JSONResponse:
    body = {"title": text, "status": status, "problem": text, "why": why, "fix": fix}
    return JSONResponse(body, status, media_type="application/problem+json")


@contextlib.contextmanager
def serving() -> Iterator[FakeService]:
    fake = FakeService()
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(router)
    app.add_api_route("/v1/{path:path}", fake.answer, methods=["GET", "POST", "PUT", "DELETE"], response_model=None)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            fake.url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            yield fake
        finally:
            server.should_exit = True
            thread.join()
