"""The sidecar: a container next to the driver that outlives it until its files are collected.

It serves the engine, receives the executors' output, and uploads all files to the lake: at intervals while the driver
runs, and completely when it has ended, however it ended. It ends when the engine deletes the pod, or by itself once
everything is in the lake, so that an abandoned pod releases its resources. Over HTTP, with the cluster's token:

`GET /status`, `GET /artefacts/NAME?start=&at_most=`, `GET /published/NAME`, `GET /pages`, `GET /tunnel/PORT` (to be
upgraded), `POST /stop`, `POST /kill`, `POST /release` for the engine; `POST /nodes/ADDRESS`,
`POST /executors/N/log?offset=` and `POST /executors/N/end` for executors.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import ipaddress
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.clusters import driver_reports, spark_settings
from penstock.clusters.kubernetes import layout
from penstock.home import open_below, sizes_below, write_atomically
from penstock.lake.credentials import parse_ini
from penstock.lake.hdfs.webhdfs import HdfsObjectStore
from penstock.lake.model import Lake, ObjectStore, artifact_key
from penstock.lake.settings import CREDENTIALS_FILE
from penstock.recovery import SIDECAR, Failures, as_problem

UPGRADE = "penstock-tunnel"
"""The protocol of an upgraded connection (RFC 9110, 7.8): the API server's proxy forwards any protocol."""

_PIECE = 1 << 16
_CONNECT_SECONDS = 5.0


def connect(port: int) -> socket.socket | None:
    """Connect to a port of the driver's loopback; None where nothing listens there."""
    try:
        far = socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS)
    except OSError:
        return None
    far.settimeout(None)
    return far


def join(near: socket.socket, far: socket.socket) -> None:
    """Copy both directions; return when both have ended."""
    near.settimeout(None)
    back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
    back.start()
    _pass_on(near, far)
    back.join()
    far.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


_EXECUTOR = re.compile(r"/executors/(\d{1,9})/(log|end)")
_NODE = re.compile(r"/nodes/([0-9a-fA-F.:]{2,45})")
_NODE_NAME = re.compile(rb"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PUBLISHED = re.compile(r"/published/([a-z][a-z0-9.-]{0,63})")
_TUNNEL = re.compile(r"/tunnel/(\d{1,5})")
_MOST_BODY = 2 << 20
_MOST_PIECE = 8 << 20
_MOST_PUBLISHED = 1 << 20


class SidecarState(Protocol):
    def status(self) -> dict[str, object]: ...
    def pages(self) -> dict[str, object]: ...
    def release(self) -> None: ...


def serve(state: SidecarState, token: str, *, port: int = layout.SIDECAR_PORT) -> ThreadingHTTPServer:
    """Start the HTTP server in a thread of its own."""

    class Handler(_Handler):
        pass

    Handler.state, Handler.token = state, token
    server = _Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """A thousand executors send output twice a second, and a browser requests the parts of a page all at once."""


class _Handler(BaseHTTPRequestHandler):
    state: SidecarState
    token: str
    appending = threading.Lock()
    timeout = 30

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._authorized():
            return
        if url.path == "/status":
            self._answer(json.dumps(self.state.status()).encode())
        elif url.path == "/pages":
            self._answer(json.dumps(self.state.pages()).encode())
        elif url.path.startswith("/artefacts/"):
            name = unquote(url.path.removeprefix("/artefacts/"), errors="surrogateescape")
            self._artifact(name, parse_qs(url.query))
        elif published := _PUBLISHED.fullmatch(url.path):
            self._published(published[1])
        elif tunnel := _TUNNEL.fullmatch(url.path):
            self._tunnel(int(tunnel[1]))
        else:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if not self._authorized():
            return
        if length > _MOST_BODY:
            self._answer(b"", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(length)
        if executor := _EXECUTOR.fullmatch(url.path):
            self._from_executor(int(executor[1]), executor[2], body, parse_qs(url.query))
        elif node := _NODE.fullmatch(url.path):
            self._node(node[1], body)
        elif url.path in ("/stop", "/kill"):
            (layout.WORK / url.path.removeprefix("/")).touch()
            self._answer(b"")
        elif url.path == "/release":
            self.state.release()
            self._answer(b"")
        else:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _authorized(self) -> bool:
        if hmac.compare_digest(self.headers.get(layout.TOKEN_HEADER, ""), self.token):
            return True
        self.close_connection = True
        self._answer(b"", HTTPStatus.FORBIDDEN)
        return False

    def _artifact(self, name: str, query: dict[str, list[str]]) -> None:
        try:
            with open_below(layout.ARTIFACTS, name) as file:
                file.seek(int(query.get("start", ["0"])[0]))
                self._answer(file.read(min(int(query.get("at_most", [str(_MOST_PIECE)])[0]), _MOST_PIECE)))
        except OSError:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _published(self, name: str) -> None:
        try:
            with open_below(layout.PUBLISHED, name) as file:
                self._answer(file.read(_MOST_PUBLISHED))
        except FileNotFoundError:
            self._answer(b"", HTTPStatus.NOT_FOUND)

    def _tunnel(self, port: int) -> None:
        self.close_connection = True
        if self.headers.get("Upgrade", "") != UPGRADE:
            self._answer(b"", HTTPStatus.UPGRADE_REQUIRED)
        elif (far := connect(port)) is None:
            self._answer(b"", HTTPStatus.BAD_GATEWAY)
        else:
            self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", UPGRADE)
            self.end_headers()
            join(self.connection, far)

    def _node(self, address: str, name: bytes) -> None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            self._answer(b"", HTTPStatus.BAD_REQUEST)
            return
        if not _NODE_NAME.fullmatch(name):
            self._answer(b"", HTTPStatus.BAD_REQUEST)
            return
        layout.NODES.mkdir(parents=True, exist_ok=True)
        write_atomically(layout.NODES / address, name, mode=0o644)
        self._answer(b"")

    def _from_executor(self, number: int, kind: str, body: bytes, query: dict[str, list[str]]) -> None:
        if kind == "end":
            write_atomically(layout.WORK / "ends" / f"executor-{number}.json", body, mode=0o644)
        else:
            with self.appending, (layout.ARTIFACTS / f"executor-{number}.log").open("ab") as log:
                already = log.tell() - int(query.get("offset", ["0"])[0])
                log.write(body[max(already, 0) :])
        self._answer(b"")

    def _answer(self, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the engine polls every second."""


_UPLOAD_EVERY_SECONDS = 15.0
_GROWTH = 1.5
_POLICY = SIDECAR
_UPLOAD = "upload"


class ArtifactUploader:
    """Uploads the artifacts to the lake. `open_store` is None for a launch without a lake: nothing is uploaded then."""

    def __init__(
        self, application_id: str, open_store: Callable[[], ObjectStore] | None, artifacts: Path = layout.ARTIFACTS
    ) -> None:
        self._id = application_id
        self._open_store = open_store
        self._root = artifacts
        self._uploaded: dict[str, int] = {}
        self._next = time.monotonic() + _UPLOAD_EVERY_SECONDS

    @staticmethod
    def of(plan: Mapping[str, Any]) -> ArtifactUploader:
        lake = Lake.from_json(plan["lake"]) if plan["lake"] else None
        return ArtifactUploader(plan["application_id"], None if lake is None else lambda: _store(lake))

    def complete(self, sizes: Mapping[str, int]) -> set[str]:
        """Return the artifacts that are completely in the lake."""
        return {name for name, size in sizes.items() if self._uploaded.get(name) == size}

    def upload_grown(self) -> None:
        """Upload the artifacts that have grown by half since their last upload; a failure is left to the next call."""
        if self._open_store is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _UPLOAD_EVERY_SECONDS
        grown = {
            name: size for name, size in self.sizes().items() if has_grown_enough(size, self._uploaded.get(name, 0))
        }
        try:
            self._upload(grown)
        except Exception as error:
            _log_failure("the logs are not in the lake yet", error)

    def upload_all(self) -> bool:
        """Upload everything, with retries; return False where there is no lake, or it stays out of reach."""
        if self._open_store is None:
            return False
        failures = Failures({_UPLOAD: _POLICY})
        while True:
            try:
                sizes = self.sizes()
                self._upload({name: size for name, size in sizes.items() if self._uploaded.get(name) != size})
                self._delete(set(self._uploaded) - set(sizes))
            except Exception as error:  # noqa: PERF203  followed by a pause
                _log_failure("the logs are not in the lake", error)
                if (pause := failures.failed(_UPLOAD, error)) is None:
                    return False
                time.sleep(pause)
            else:
                return True

    def _upload(self, artifacts: Mapping[str, int]) -> None:
        if not artifacts or self._open_store is None:
            return
        # Opened each time: the credentials are replaced while the cluster runs.
        store = self._open_store()
        failure: Exception | None = None
        for name, size in artifacts.items():
            try:
                store.put(artifact_key(self._id, name), self._root / name)
            except OSError as error:  # noqa: PERF203  an upload takes milliseconds
                failure = error  # the upload of the other files continues
            else:
                self._uploaded[name] = size
        if failure is not None:
            raise failure

    def _delete(self, gone: set[str]) -> None:
        """Delete the objects of renamed files: Spark renames an event log at its end."""
        if gone and self._open_store is not None:
            self._open_store().delete(*(artifact_key(self._id, name) for name in gone))
            for name in gone:
                del self._uploaded[name]

    def sizes(self) -> dict[str, int]:
        """Return the artifacts in the pod, with their sizes in bytes."""
        return {name: size for name, size in sizes_below(self._root).items() if not name.endswith(".crc")}


def _log_failure(message: str, error: Exception) -> None:
    problem = as_problem(error, "upload the logs to the lake")
    print(f"{message}: {problem.problem}: {problem.why}", file=sys.stderr, flush=True)


def has_grown_enough(size: int, uploaded: int) -> bool:
    """Return whether a file has grown enough for another upload.

    An object cannot be appended to, only replaced. With an upload at one and a half times the previous size, the bytes
    sent for a growing file stay within three times its size.
    """
    return size > uploaded * _GROWTH


def _store(lake: Lake) -> ObjectStore:
    if not lake.is_s3:
        return HdfsObjectStore(lake)
    from penstock.lake.s3 import S3ObjectStore  # noqa: PLC0415  half a second, which HDFS lakes save

    content = (layout.PRIVATE / CREDENTIALS_FILE).read_text(encoding="utf-8")
    credentials, _ = next(iter(parse_ini(content).values()))
    return S3ObjectStore(lake, credentials)


_EVERY_SECONDS = 1.0
_LAST_LINES_SECONDS = 2.0
"""The time that executors have for their last lines once the driver has ended."""
_LINGER_SECONDS = 60.0
_LINGER_UNKEPT_SECONDS = 3600.0
_NOTE = Path("/dev/termination-log")
_MOST_ENDS = 10_000
_LONGEST_NOTE = 4096
"""Kubernetes truncates a longer note."""
_BEFORE_KILLED_SECONDS = 40.0
"""The time after SIGTERM that is left for the driver's end: Kubernetes kills the pod a minute after it."""


class Sidecar:
    """The state of the driver's pod. `run` returns when the sidecar is no longer needed."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._uploader = ArtifactUploader.of(plan)
        self._terminated_at: float | None = None
        self._done = threading.Event()
        self._finished = False

    def status(self) -> dict[str, Any]:
        """Return the status of driver, executors and artifacts.

        `finished`: the driver has ended and no file changes any more. `in_lake`: the artifacts that were uploaded
        completely.
        """
        files = self._uploader.sizes()
        return {
            "ended": driver_reports.read(layout.WORK, layout.ENDED.name),
            "finished": self._finished,
            "progress": driver_reports.read(layout.CLUSTER, "progress.json"),
            "summary": driver_reports.read(layout.CLUSTER, "summary.json") if self._finished else None,
            "processes": _ends(),
            "artefacts": files,
            "in_lake": sorted(self._uploader.complete(files)) if self._finished else [],
        }

    def pages(self) -> dict[str, Any]:
        """Return port and key of Spark's web UI, which starts on the first request; the port is None until then."""
        endpoint = spark_settings.endpoint(layout.CLUSTER)
        pages = None if endpoint is None else spark_settings.web_interface(layout.CLUSTER, endpoint)
        return {"port": pages and pages.port, "key": pages and pages.key}

    def terminate(self, *_: object) -> None:
        """Note that the pod is being deleted."""
        self._terminated_at = self._terminated_at or time.monotonic()

    def release(self) -> None:
        """Note that everything was collected."""
        self._done.set()

    def run(self) -> None:
        while not self._is_late():
            # No failure here may prevent the upload of the logs when the driver has ended.
            try:
                if self._driver_is_gone():
                    break
                self._uploader.upload_grown()
            except Exception as error:
                _log_error("continues after an error", error)
            self._done.wait(_EVERY_SECONDS)
        time.sleep(_LAST_LINES_SECONDS)
        uploaded = self._uploader.upload_all()
        self._finished = True
        try:
            self._write_termination_message()
        except Exception as error:
            _log_error("leaves no note", error)
        deadline = time.monotonic() + (_LINGER_SECONDS if uploaded else _LINGER_UNKEPT_SECONDS)
        while not self._done.wait(_EVERY_SECONDS) and time.monotonic() < deadline and self._terminated_at is None:
            pass

    def _write_termination_message(self) -> None:
        """Write the summary to the pod's status, for an engine that returns when this process has ended."""
        note = json.dumps({"summary": driver_reports.read(layout.CLUSTER, "summary.json"), "processes": _ends()})
        if len(note) <= _LONGEST_NOTE:
            with contextlib.suppress(OSError):
                _NOTE.write_text(note, encoding="utf-8")

    def _is_late(self) -> bool:
        return self._terminated_at is not None and time.monotonic() - self._terminated_at > _BEFORE_KILLED_SECONDS

    def _driver_is_gone(self) -> bool:
        if layout.ENDED.exists():
            return True
        try:
            lock = os.open(layout.LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            # The driver has not started; in a pod that is being deleted it never will.
            return self._terminated_at is not None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True


def _log_error(message: str, error: Exception) -> None:
    problem = as_problem(error, "watch the driver")
    print(f"the sidecar {message}: {problem.problem}: {problem.why}", file=sys.stderr, flush=True)


def _ends() -> dict[str, Any]:
    """Return the recorded ends of executors, as submitted code may have left them: the driver can write there."""
    directory = layout.WORK / "ends"
    found = sorted(path.name for path in directory.glob("executor-*.json"))[:_MOST_ENDS]
    return {
        name.removesuffix(".json"): driver_reports.process_end(driver_reports.read(directory, name)) for name in found
    }


def main() -> None:
    for directory in (layout.CLUSTER, layout.ARTIFACTS / "events", layout.WORK / "ends"):
        directory.mkdir(parents=True, exist_ok=True)
    layout.PUBLISHED.mkdir(mode=0o700, exist_ok=True)
    plan = json.loads((layout.LAUNCH / layout.PLAN).read_text(encoding="utf-8"))
    sidecar = Sidecar(plan)
    signal.signal(signal.SIGTERM, sidecar.terminate)
    server = serve(sidecar, (layout.KEYS / layout.TOKEN).read_text(encoding="ascii"))
    print(f"The sidecar of {plan['application_id']} listens on port {layout.SIDECAR_PORT}", flush=True)
    sidecar.run()
    server.shutdown()
    sys.exit(0)


if __name__ == "__main__":
    main()
