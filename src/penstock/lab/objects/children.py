"""Processes of one command that talk to it over a pipe, and end with it."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from penstock.errors import PenstockError

_SPAWN = multiprocessing.get_context("spawn")  # fork copies locks that other threads hold
_END_SECONDS = 2.0


@dataclass(frozen=True)
class Child:
    """A process and our end of its pipe. It must end by itself when the pipe does."""

    process: SpawnProcess
    pipe: Connection

    @staticmethod
    def start(target: Callable[..., None], setup: Any, name: str) -> Child:
        """Call `target(pipe, setup)` in a new process. What `setup` holds goes to it over a pipe."""
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=target, args=(theirs, setup), name=name, daemon=True)
        # Ctrl-C goes to all processes of the terminal; the children leave it to this one, from their first moment on.
        # The tracker first: starting it, multiprocessing would lift the mask again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # or its end would never be seen here
        return Child(process, ours)

    def send(self, message: object) -> None:
        """Raises `PenstockError` where the process has died."""
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def receive(self) -> Any:
        """Waits for a message; raises `PenstockError` where the process has died."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None

    def _died(self) -> PenstockError:
        self.process.join(_END_SECONDS)
        return PenstockError(
            "A process of the load generator died",
            why=f"{self.process.name} ended with {self.process.exitcode}; what it had counted is lost",
            fix="if the system ended it for lack of memory, use fewer --workers or --processes",
        )


def end(children: Sequence[Child]) -> None:
    """End all of them; safe at any moment, and more than once."""
    for child in children:
        child.pipe.close()
    deadline = time.monotonic() + _END_SECONDS
    for child in children:
        child.process.join(max(0.0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
