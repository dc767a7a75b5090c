"""An engine whose clusters are directories: only Spark is fake.

A thousand applications pass through the real records, queue, supervisors and dispatcher in minutes, and every launch
and its time are in a file that no kill can take back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from penstock.clusters.backend import MAX_READ_BYTES, ClusterBackend, Handle, Launch, Observation, Phase, WebInterface
from penstock.engine.engine import Engine
from penstock.engine.supervision.detached import DetachedSupervisors
from penstock.engine.supervision.supervisor import Supervisor
from penstock.errors import Superseded
from penstock.home import Home, write_json
from penstock.model import Application, ApplicationSpec, Capacity, ClusterSize, ProcessSize

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)
ROOM = Capacity(cores=64, memory_bytes=256 << 30)


def specification(home: Home, number: int, **more: object) -> ApplicationSpec:
    """Return the specification of an application that passes every check of a submission."""
    file = home.root / "application.py"
    file.touch()
    return ApplicationSpec(application=str(file), size=SIZE, name=f"load-{number}", **more)  # type: ignore[arg-type]


def launches(home: Home) -> list[str]:
    """Return the ids in the order of their launches; one that was launched twice appears twice."""
    log = home.root / "launches"
    return log.read_text(encoding="ascii").split() if log.exists() else []


class FakeBackend(ClusterBackend):
    name = "pretended"

    def __init__(self, home: Home, *, capacity: Capacity = ROOM, seconds: float = 0.01) -> None:
        self._home = home
        self.has = capacity
        self._seconds = seconds

    def capacity(self) -> Capacity:
        return self.has

    def handle(self, application_id: str) -> Handle:
        return {"backend": self.name, "application_id": application_id}

    def launch(self, launch: Launch) -> None:
        directory = self._directory(self.handle(launch.application_id))
        if directory.exists():
            return
        directory.mkdir(parents=True)
        descriptor = os.open(self._home.root / "launches", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{launch.application_id}\n".encode("ascii"))
        os.close(descriptor)

    def observe(self, handle: Handle) -> Observation:
        try:
            age = time.time() - self._directory(handle).stat().st_mtime
        except FileNotFoundError:
            return Observation(Phase.LOST, detail="there is no such directory")
        return Observation(Phase.ENDED, exit_code=0) if age >= self._seconds else Observation(Phase.RUNNING)

    def read(self, handle: Handle, name: str, start: int, *, at_most: int = MAX_READ_BYTES) -> bytes:
        return b""

    def sizes(self, handle: Handle) -> Mapping[str, int]:
        return {}

    def private_file(self, handle: Handle, name: str) -> str | None:
        return None

    def replace_private_file(self, handle: Handle, name: str, content: str) -> None:
        pass

    def web_interface(self, handle: Handle) -> WebInterface | None:
        return None

    def stop(self, handle: Handle, *, grace_seconds: float) -> None:
        pass

    def collect(self, handle: Handle, *, incomplete: bool = False) -> Path:
        # The file is outside the cluster's directory, whose modification time is the application's start.
        directory = self._home.root / "collected" / str(handle["application_id"])
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "summary.json", {})
        return directory

    def release(self, handle: Handle) -> None:
        shutil.rmtree(self._directory(handle), ignore_errors=True)

    def _directory(self, handle: Handle) -> Path:
        return self._home.applications / str(handle["application_id"])


class Threads(DetachedSupervisors):
    """Supervisors as threads instead of processes, so that a kill of the dispatcher ends them, too."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.home)
        self._engine = engine
        self._started: list[tuple[str, threading.Thread]] = []

    def start(self, application_id: str) -> None:
        thread = threading.Thread(target=self._look_after, args=[application_id], daemon=True)
        self._started.append((application_id, thread))
        thread.start()

    def end(self) -> None:
        """End every application that is supervised here, so that no thread outlives the database of its test."""
        for application_id, thread in self._started:
            if thread.is_alive():
                self._engine.request_stop(application_id)
            thread.join(30)
            assert not thread.is_alive(), f"the supervisor of {application_id} has not ended"

    def keep_ready(self) -> None:
        pass

    def _look_after(self, application_id: str) -> None:
        with contextlib.suppress(Superseded):
            self._engine.supervise(application_id)


class FakeEngine(Engine):
    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        super().__init__(home, backend or FakeBackend(home))
        self.supervisors: Threads = Threads(self)

    def supervisor(self, application_id: str, *, cores_per_core: float = 2.0) -> Supervisor:
        def prepare(application: Application) -> Launch:
            return Launch(application.id, application.spec, {})

        return Supervisor(
            self.repositories.transitions, self.backend, prepare=prepare, store_artifacts=lambda *_: {"pretended": True}
        )
