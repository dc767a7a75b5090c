"""An in-memory lake and a fake engine, for tests of suites without a cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from penstock.engine.interactive.sessions import LocalExchange
from penstock.engine.submission import Submission
from penstock.errors import NotFound
from penstock.home import Home
from penstock.lake.model import Lake, ObjectInfo, ObjectStore
from penstock.model import Application, ApplicationSpec, Capacity, State

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


class MemoryStore(ObjectStore):
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified = NOW
        self.reads: list[str] = []

    def put(self, key: str, content: bytes | Path) -> None:
        self.objects[key] = content.read_bytes() if isinstance(content, Path) else content

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.reads.append(key)
        if key not in self.objects:
            raise NotFound(f"no {key}")
        return self.objects[key][start : None if length is None else start + length]

    def download(self, key: str, target: Path) -> None:
        target.write_bytes(self.get(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.objects[key]), self.modified, "")

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def put_lines(self, key: str, lines: list[dict[str, Any]]) -> None:
        self.put(key, "".join(json.dumps(line) + "\n" for line in lines).encode())


class PretendingEngine:
    """Ends every application at once, after `work` has changed the lake as the application would.

    Where `work` returns None the application goes on, and `work` is called again. May be called by several threads at
    once.
    """

    def __init__(self, work: Callable[[ApplicationSpec], State | None]) -> None:
        self._work = work
        self.submitted: list[ApplicationSpec] = []
        self.stopped: list[str] = []
        self.cores_per_core: dict[str, float] = {}
        self.strays: list[Application] = []
        self._turn = threading.Lock()
        self.artifacts = self
        self.backend = SimpleNamespace(name="local", shares_files=True, capacity=lambda: Capacity(2, 16 << 30))
        self.home: Home | None = None

    def exchange(self, lake: Lake) -> LocalExchange:
        return LocalExchange(self, lake)  # type: ignore[arg-type]

    def resolve(self, spec: ApplicationSpec) -> Submission:
        return Submission(spec, {}, ())

    def submit(self, spec: ApplicationSpec) -> Application:
        with self._turn:
            self.submitted.append(spec)
            return Application(f"app-{len(self.submitted)}", spec, State.ACCEPTED, NOW)

    def supervise(self, application_id: str, *, on_change: Callable[..., None], cores_per_core: float) -> Application:
        spec = self.submitted[int(application_id.removeprefix("app-")) - 1]
        self.cores_per_core[application_id] = cores_per_core
        running = Application(application_id, spec, State.RUNNING, NOW)
        on_change(running, None)
        deadline = time.monotonic() + 20
        while (ended := self._work(spec)) is None:
            assert time.monotonic() < deadline, f"{spec.name} was not stopped"
            on_change(running, None)
            time.sleep(0.01)
        return replace(running, state=ended, ended_at=NOW, summary={"processes": {}})

    def list(self, *, states: Iterable[State], tags: Iterable[str]) -> list[Application]:
        """Return the running applications of a killed command."""
        return [stray for stray in self.strays if stray.state in states and set(tags) <= set(stray.spec.tags)]

    def reconcile(self) -> Iterable[str]:
        return []

    def stop(self, application_id: str) -> None:
        self.stopped.append(application_id)

    def load(self, application_id: str, name: str) -> bytes:
        raise NotFound(f"no {name}")


class Silent:
    """A listener that records steps and notes."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []

    def step(self, title: str) -> None:
        self.steps.append(title)

    def now(self, text: str) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def elapsed(self) -> float:
        return 1.0
