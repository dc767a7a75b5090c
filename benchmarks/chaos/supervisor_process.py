"""A supervisor of one application: `python -m benchmarks.chaos.supervisor_process HOME APPLICATION`.

It works like `penstock.engine.supervisor_process`, but each executor has an address of its own: Spark starts a
speculative copy of a task only on a host where no other attempt of it runs, and all executors of a machine would be one
host.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.chaos.gateways import ROOT
from penstock.clusters import shim
from penstock.clusters.local import LocalBackend
from penstock.engine.engine import Engine
from penstock.home import Home, read_json, write_json

_CROWDED = 8.0


class SpreadBackend(LocalBackend):
    """Local backend that gives each executor an address of its own; all of 127.0.0.0/8 is this machine."""

    def _start_shim(self, directory: Path) -> None:
        file = directory / "private" / "plan.json"
        plan = read_json(file)
        plan["executor"] += ["--host", f"127.0.1.{shim.EXECUTOR_TOKEN}"]
        write_json(file, plan)
        super()._start_shim(directory)


def start(home: Home, application_id: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.chaos.supervisor_process", str(home.root), application_id]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


if __name__ == "__main__":
    chosen = Home(Path(sys.argv[1]))
    # Cores are oversubscribed, so that the applications contend for the tables instead of waiting for cores.
    Engine(chosen, SpreadBackend(chosen)).supervise(sys.argv[2], cores_per_core=_CROWDED)
