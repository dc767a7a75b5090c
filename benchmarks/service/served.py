"""A service as a child process, which may be killed and started again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.service.reporting import progress
from penstock.catalog.database import Database
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore
from penstock.home import Home
from penstock.processes import free_ports, wait_until
from tests.support.service_process import is_ready

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 60.0
_END_SECONDS = 60.0


class Service:
    """`penstock serve`, or the module `instead` with HOME, its port and the port of Spark's pages as arguments.

    It listens on two free ports, and keeps them over restarts. Its errors are in HOME/service.log.
    """

    def __init__(self, home: Home, *, instead: str | None = None) -> None:
        self._home = home
        self.port, spark_ui_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = _command(home, instead, str(self.port), str(spark_ui_port))
        self._process = self._started()

    def __enter__(self) -> Service:
        self.until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def until_ready(self) -> None:
        if not wait_until(lambda: is_ready(self.url), _PATIENCE_SECONDS, pause_seconds=0.1):
            raise SystemExit(f"the service was not ready after {_PATIENCE_SECONDS:g} s")

    def kill(self) -> bool:
        """Kill it and start it again at once, as a Deployment would do it."""
        self._process.kill()
        self._process.wait()
        self._process = self._started()
        return True

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        with (self._home.root / "service.log").open("ab") as log:
            return subprocess.Popen(self._command, cwd=ROOT, env=environment(self._home), stderr=log)


class Killer:
    """A thread that kills the victims at random moments while the block runs.

    The kinds of victims come equally often and in random order. Each victim is a function that kills one process of its
    kind, or returns False where none is running at the moment; it is then called again.
    """

    def __init__(
        self,
        victims: Mapping[str, Callable[[], bool]],
        *,
        times: int,
        seconds: tuple[float, float],
        chance: random.Random,
    ) -> None:
        order = [name for _ in range(times) for name in victims][:times]
        chance.shuffle(order)
        self._victims, self._order = victims, order
        self._seconds, self._chance = seconds, chance
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.killed: list[tuple[str, float]] = []

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        waiting = list(self._order)
        while waiting and not self._over.wait(self._chance.uniform(*self._seconds)):
            name = waiting[0]
            while not self._victims[name]():
                if self._over.wait(0.2):
                    return
            del waiting[0]
            self.killed.append((name, time.time()))
            progress(f"killed: {name} ({len(self.killed)} of {len(self._order)})")


def token_of_its_own(home: Home) -> str:
    """Create a token for the load: the first token is made only where there is none, and loads may share records."""
    _, text = TokenStore(Database(home).engine()).create("load", {EVERY_INSTANCE: Scope.SUBMIT})
    return text


def environment(home: Home, server: str | None = None) -> dict[str, str]:
    return {**os.environ, "PENSTOCK_HOME": str(home.root), **({"PENSTOCK_SERVER": server} if server else {})}


def _command(home: Home, instead: str | None, port: str, spark_ui_port: str) -> Sequence[str]:
    if instead is not None:
        return [sys.executable, "-m", instead, str(home.root), port, spark_ui_port]
    options = ["--port", port, "--spark-ui-port", spark_ui_port, "--log-level", "warning"]
    return [sys.executable, "-m", "penstock.cli.main", "serve", *options]
