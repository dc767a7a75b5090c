"""Faulty gateways as child processes: started, controlled, killed, stopped and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.chaos.faults import Plan

ROOT = Path(__file__).parents[2]


class Gateway:
    """A gateway process that keeps its port over restarts."""

    def __init__(self, name: str, upstream: str, record: Path) -> None:
        self.name = name
        self._upstream = upstream
        self._record = record
        self._plan = Plan("")
        self._counted: Counter[str] = Counter()
        self._starts = 0
        self._process = self._start(0)
        self.port = int(self._read())

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def follow(self, plan: Plan) -> None:
        """Follow this plan from now on. A restarted gateway draws anew, or it would repeat the same faults."""
        self._plan = plan
        self._say({"plan": Plan(f"{plan.seed}/{self.name}/{self._starts}", plan.rules).to_json()})

    def heal(self) -> None:
        self.follow(Plan(""))

    def requests(self) -> Counter[str]:
        """Numbers of requests by operation, over all restarts."""
        return self._counted + Counter(self._say({"count": True}))

    def kill(self) -> None:
        self._counted = self.requests()
        self.close()

    def start_again(self) -> None:
        self._starts += 1
        self._process = self._start(self.port)
        self._read()
        self.follow(self._plan)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self, port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "benchmarks.chaos.proxy", "--upstream", self._upstream, "--name", self.name]
        command += ["--record", str(self._record), "--listen", str(port)]
        return subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def _say(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the gateway {self.name} ended with exit code {self._process.wait()}")
        return line
