"""Detached processes that supervise one application each and outlive the process that started them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

from penstock.home import Home
from penstock.processes import start_daemon

_LOG = "supervisors.log"


class DetachedSupervisors:
    """Starts detached supervisors. Thread-safe."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._changing = threading.Lock()
        self._forking = False
        self._server: subprocess.Popen[bytes] | None = None

    def start(self, application_id: str) -> None:
        """Start a process that supervises the application; return at once."""
        self._home.create()
        with self._changing:
            if not self._forked(application_id):
                command = [*self._command(), application_id]
                start_daemon(command, log=self._home.root / _LOG, directory=self._home.root)
            self._keep_server()

    def keep_ready(self) -> None:
        """Fork supervisors from a prefork server from now on; the server ends with this process."""
        self._home.create()
        with self._changing:
            self._forking = True
            self._keep_server()

    def close(self) -> None:
        """Stop the prefork server; running supervisors go on."""
        with self._changing:
            self._forking = False
            self._end_server()

    def _forked(self, application_id: str) -> bool:
        if self._server is None or self._server.stdin is None:
            return False
        # A prefork server that was killed meanwhile reads nothing.
        with contextlib.suppress(OSError):
            self._server.stdin.write(f"{application_id}\n".encode())
            self._server.stdin.flush()
            if self._server.poll() is None:
                return True
        self._end_server()
        return False

    def _keep_server(self) -> None:
        if not self._forking or self._server is not None:
            return
        with (self._home.root / _LOG).open("ab") as log:
            self._server = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home.root,
                start_new_session=True,
            )

    def _end_server(self) -> None:
        server, self._server = self._server, None
        if server is not None and server.stdin is not None:
            with contextlib.suppress(OSError):
                server.stdin.close()
            server.wait()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "penstock.engine.supervisor_process", str(self._home.root)]
