"""Processes that look after one application each and outlive whoever started them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

from penstock.home import Home
from penstock.processes import start_daemon

FROM_INPUT = "-"
"""Instead of an application's id: it comes on the standard input, or nobody needs the process."""

_LOG = "supervisors.log"


class Attendants:
    """Every method may be called by several threads at once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._changing = threading.Lock()
        self._keeping = False
        self._spare: subprocess.Popen[bytes] | None = None

    def start(self, application_id: str) -> None:
        """Have a process look after the application; returns at once."""
        self._home.create()
        with self._changing:
            if not self._give_to_spare(application_id):
                start_daemon(self._command(application_id), log=self._home.root / _LOG, directory=self._home.root)
            self._ready_spare()

    def keep_spare(self) -> None:
        """From now on have a process ready that has loaded all it needs, half a second of every start.

        It ends with this process, unless it was given something to look after.
        """
        self._home.create()
        with self._changing:
            self._keeping = True
            self._ready_spare()

    def close(self) -> None:
        """Without a spare one from now on; those that look after something go on."""
        with self._changing:
            self._keeping = False
            self._give_to_spare("")

    def _give_to_spare(self, application_id: str) -> bool:
        spare, self._spare = self._spare, None
        if spare is None or spare.stdin is None:
            return False
        # One that was killed meanwhile takes nothing.
        with contextlib.suppress(OSError), spare.stdin as pipe:
            pipe.write(f"{application_id}\n".encode())
            pipe.flush()
            return spare.poll() is None
        return False

    def _ready_spare(self) -> None:
        if not self._keeping or self._spare is not None:
            return
        with (self._home.root / _LOG).open("ab") as log:
            self._spare = subprocess.Popen(
                self._command(FROM_INPUT),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home.root,
                start_new_session=True,
            )

    def _command(self, argument: str) -> list[str]:
        return [sys.executable, "-m", "penstock.engine.background", str(self._home.root), argument]
