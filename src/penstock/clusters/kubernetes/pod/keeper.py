"""The keeper: the container beside the driver that outlives it, for as long as somebody needs what it left.

It answers the engine (what the driver's files hold, and that it shall end), takes in what executors say, and brings all
of it to the lake: now and then while the driver runs, and whole when it has ended, however it ended. It goes when
the engine has seen it (the pod is deleted), or, once everything is in the lake, by itself, so that a pod holds
nothing while nobody looks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock.clusters import driverpages
from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.pod.bringing import Bringer
from penstock.clusters.kubernetes.pod.serving import serve
from penstock.home import read_json
from penstock.recovery import as_problem

_EVERY_SECONDS = 1.0
_LAST_LINES_SECONDS = 2.0
"""How long executors have for their last lines once the driver is gone."""
_LINGER_SECONDS = 60.0
_LINGER_UNKEPT_SECONDS = 3600.0
_NOTE = Path("/dev/termination-log")
_LONGEST_NOTE = 4096
"""Kubernetes keeps no more of it."""
_BEFORE_KILLED_SECONDS = 40.0
"""After SIGTERM: Kubernetes kills what is left of the pod a minute after it."""


class Keeper:
    """What it knows, for whoever asks; `run` returns when nobody needs it any more."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._bringer = Bringer.of(plan)
        self._terminated_at: float | None = None
        self._done = threading.Event()
        self._finished = False

    def status(self) -> dict[str, Any]:
        """`finished`: the driver has ended and no file changes any more. `in_lake`: those that are there whole."""
        files = self._bringer.sizes()
        return {
            "ended": read_json(places.ENDED),
            "finished": self._finished,
            "progress": read_json(places.CLUSTER / "progress.json"),
            "summary": read_json(places.CLUSTER / "summary.json") if self._finished else None,
            "processes": _ends(),
            "artefacts": files,
            "in_lake": sorted(self._bringer.whole(files)) if self._finished else [],
        }

    def pages(self) -> dict[str, Any]:
        """The driver's pages, which are opened when they are first asked for: their port, None until then, and key."""
        told = driverpages.endpoint(places.CLUSTER)
        pages = None if told is None else driverpages.look(places.CLUSTER, told)
        return {"port": pages and pages.port, "key": pages and pages.key}

    def terminate(self, *_: object) -> None:
        """The pod is being deleted."""
        self._terminated_at = self._terminated_at or time.monotonic()

    def release(self) -> None:
        """Everything was collected."""
        self._done.set()

    def run(self) -> None:
        while not self._is_late():
            # Whatever fails here, the logs are still to be brought to the lake when the driver has ended.
            try:
                if self._driver_is_gone():
                    break
                self._bringer.now_and_then()
            except Exception as error:
                _say("goes on", error)
            self._done.wait(_EVERY_SECONDS)
        time.sleep(_LAST_LINES_SECONDS)
        kept = self._bringer.all_of_it()
        self._finished = True
        try:
            self._leave_a_note()
        except Exception as error:
            _say("leaves no note", error)
        deadline = time.monotonic() + (_LINGER_SECONDS if kept else _LINGER_UNKEPT_SECONDS)
        while not self._done.wait(_EVERY_SECONDS) and time.monotonic() < deadline and self._terminated_at is None:
            pass

    def _leave_a_note(self) -> None:
        """In the pod's own status, for an engine that comes back when this process is gone."""
        note = json.dumps({"summary": read_json(places.CLUSTER / "summary.json"), "processes": _ends()})
        if len(note) <= _LONGEST_NOTE:
            with contextlib.suppress(OSError):
                _NOTE.write_text(note, encoding="utf-8")

    def _is_late(self) -> bool:
        return self._terminated_at is not None and time.monotonic() - self._terminated_at > _BEFORE_KILLED_SECONDS

    def _driver_is_gone(self) -> bool:
        if places.ENDED.exists():
            return True
        try:
            lock = os.open(places.LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            # It never came so far; where the pod is ended before it does, there is nothing to wait for.
            return self._terminated_at is not None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True


def _say(what: str, error: Exception) -> None:
    problem = as_problem(error, "look after the driver")
    print(f"the sidecar {what}: {problem.problem}: {problem.why}", file=sys.stderr, flush=True)


def _ends() -> dict[str, Any]:
    """How the executors ended that said so."""
    return {path.stem: read_json(path) for path in sorted(places.WORK.glob("ends/executor-*.json"))}


def main() -> None:
    for directory in (places.CLUSTER, places.ARTEFACTS / "events", places.WORK / "ends"):
        directory.mkdir(parents=True, exist_ok=True)
    places.PUBLISHED.mkdir(mode=0o700, exist_ok=True)
    plan = json.loads((places.LAUNCH / places.PLAN).read_text(encoding="utf-8"))
    keeper = Keeper(plan)
    signal.signal(signal.SIGTERM, keeper.terminate)
    server = serve(keeper, (places.KEYS / places.TOKEN).read_text(encoding="ascii"))
    print(f"keeper of {plan['application_id']} listens on port {places.KEEPER_PORT}", flush=True)
    keeper.run()
    server.shutdown()
    sys.exit(0)


if __name__ == "__main__":
    main()
