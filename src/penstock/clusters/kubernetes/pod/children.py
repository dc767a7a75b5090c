"""One child process of a container: what it says is passed on as it says it, and what it cost is known at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Sink = Callable[[bytes], object]

_PIECE = 1 << 16
_POLL_SECONDS = 0.2


class Child:
    """Started when it is made. SIGTERM to this process is passed on to it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        out: Sequence[Sink],
        err: Sequence[Sink],
    ) -> None:
        self._started_ms = _now_ms()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
        )
        signal.signal(signal.SIGTERM, lambda *_: self.signal(signal.SIGTERM))
        self._pumps = [
            threading.Thread(target=_pump, args=(pipe, sinks), daemon=True)
            for pipe, sinks in ((self._process.stdout, out), (self._process.stderr, err))
        ]
        for pump in self._pumps:
            pump.start()

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            os.kill(self._process.pid, number)

    def wait(self, between: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """How it ended: exit code (as a shell shows it), times, and what it used. `between` is called meanwhile."""
        while True:
            pid, state, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                break
            between()
            time.sleep(_POLL_SECONDS)
        code = os.waitstatus_to_exitcode(state)
        self._process.returncode = code
        for pump in self._pumps:
            # A grandchild that lives on keeps the pipe open; it ends with the container.
            pump.join(timeout=2)
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "started_ms": self._started_ms,
            "ended_ms": _now_ms(),
            "peak_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        }


def _pump(pipe: Any, sinks: Sequence[Sink]) -> None:
    while piece := os.read(pipe.fileno(), _PIECE):
        for sink in sinks:
            # A full disk costs these lines. A pipe that nobody reads any more would stop the child for ever.
            with contextlib.suppress(OSError):
                sink(piece)


def _now_ms() -> int:
    return int(time.time() * 1000)
