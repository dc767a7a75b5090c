"""The build of the class-data archives in the background: `python -m penstock.engine.class_archives HOME`.

The archives make every JVM start faster, but nothing needs them, so `penstock up` does not wait for them. A detached
process, one at a time for a home, builds them, at idle priority unless a command waits for them. `class-archives.json`
in the home has its identity and progress, `class-archives.log` its output. A killed process leaves no archive; the next
`penstock up` starts another.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.catalog.database import Database
from penstock.clusters import machine
from penstock.engine.policy import admission
from penstock.engine.preparation import Preparation
from penstock.errors import ClusterError, PenstockError
from penstock.home import Home, read_json, write_json
from penstock.model import SPARK_INTERNAL, ApplicationSpec
from penstock.processes import ProcessId, SpareTime, end_group, lower_priority, start_daemon
from penstock.runtime import cds

_TRAINING = "penstock/training"
_RECORD, _LOG = "class-archives.json", "class-archives.log"
_AWAITED = "--awaited"
_STARTING, _STARTING_SECONDS = "class-archives-start", 20.0
_LOOK_SECONDS, _GRACE_SECONDS = 0.25, 30.0
_ATTEMPTS = 5
_BUSY_SHARE = 0.05
"""An attempt had too little of the processors if they were idle for a smaller share of its time."""
_TIMEOUT_SECONDS = 60.0
"""An attempt that failed sooner ran into none of Spark's timeouts."""
_SPARE_SECONDS = 10.0
"""The idle time after which the machine counts as less busy."""
_AGAIN = "penstock up builds them"


@dataclass(frozen=True)
class BuildStatus:
    """The state of a home's archives: made, being made (`running`), failed (`problem`), or not made."""

    built: bool
    running: bool = False
    started_at: datetime | None = None
    written: int = 0
    problem: str = ""
    why: str = ""
    interrupted: bool = False
    waiting: bool = False
    """True while it waits for a less busy machine."""

    @staticmethod
    def of(record: Mapping[str, Any] | None, *, made: bool, running: bool) -> BuildStatus:
        """The status from the content of the progress file, which is None where there is none. Pure."""
        if record is None:
            return BuildStatus(made)
        problem = "" if made or running else record.get("problem", "")
        return BuildStatus(
            built=made,
            running=running,
            started_at=datetime.fromisoformat(record["started_at"]),
            written=record.get("written", 0),
            problem=problem,
            why=record.get("why", "") if problem else "",
            interrupted=not made and not running and not problem,
            waiting=running and record.get("waiting", False),
        )

    def seconds(self) -> float:
        """The time since the start; 0 where nothing was started."""
        return (datetime.now(timezone.utc) - self.started_at).total_seconds() if self.started_at else 0.0

    def sentence(self) -> str:
        """One line for people: `being made since 14:03, 1 of 2`."""
        if self.running and self.started_at:
            now = "waiting for a less busy machine" if self.waiting else f"{self.written} of {len(cds.ROLES)}"
            return f"being made since {self.started_at.astimezone():%H:%M}, {now}"
        if self.built:
            return "made"
        if self.problem:
            return f"failed: {self.why.partition(chr(10))[0] or self.problem}; {_AGAIN} again"
        if self.interrupted:
            return f"not made: their build was interrupted; {_AGAIN} again"
        return f"not made: {_AGAIN}"


class ClassArchives:
    """The class-data archives of a home. Raises `MissingRequirement` where there is no Java."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @property
    def log(self) -> Path:
        return self._home.root / _LOG

    def build(self) -> bool:
        """Build the archives for this Java and these jars in this process; return False where they exist already.

        Starts the default lake and the catalog if they are down. Raises as `cds.build_archives`.
        """
        if cds.archives_exist(self._home):
            return False
        self._training()()
        return True

    def _training(self) -> Callable[..., None]:
        """`cds.build_archives` for the default lake, which is started, and for the catalog."""
        preparation = Preparation(self._home, Database(self._home), None)
        lake = preparation.lake
        size = admission.usual_size(machine.capacity(self._home))
        spec = ApplicationSpec(application=SPARK_INTERNAL, size=size, name="training", lake=lake.name)
        launch = preparation.launch("training", spec)
        return functools.partial(
            cds.build_archives,
            self._home,
            location=f"{lake.root}/{_TRAINING}",
            settings={**machine.tier_settings(machine.page_cache(self._home)), **launch.settings},
            environment=launch.environment,
            private_files=launch.private_files,
        )

    def start(self, *, awaited: bool = False) -> bool:
        """Start the background process, unless the archives exist or one is running; return whether it was started.

        It runs at idle priority unless it is `awaited`: a busy machine would keep the waiting command for hours.
        """
        with self._starting():
            if cds.archives_exist(self._home) or self._process():
                return False
            self.log.unlink(missing_ok=True)
            command = [sys.executable, "-m", "penstock.engine.class_archives", str(self._home.root)]
            command += [_AWAITED] if awaited else []
            process = start_daemon(command, log=self.log, directory=self._home.root)
            self._write({"process": process.to_json(), "started_at": datetime.now(timezone.utc).isoformat()})
        return True

    def status(self) -> BuildStatus:
        record, running = self._read(), self._process() is not None
        return BuildStatus.of(record, made=cds.archives_exist(self._home), running=running)

    def wait(self, report: Callable[[BuildStatus], None], *, pause_seconds: float = _LOOK_SECONDS) -> BuildStatus:
        """Wait until no background process is running; `report` receives the status while one is."""
        while (status := self.status()).running:
            report(status)
            time.sleep(pause_seconds)
        return status

    def require_made(self) -> None:
        """Raise the error of the last build unless the archives exist."""
        status = self.status()
        if not status.built:
            raise ClusterError(
                status.problem or "The class-data archives were not built; clusters work without them",
                why=status.why or "the process that built them was ended",
                fix=f"retry with penstock up --wait; the output is in {self.log}",
            )

    def end(self) -> bool:
        """End the background process with the JVMs that it started; return whether one was running."""
        process = self._process()
        if process is None:
            return False
        # On a busy machine a process at idle priority would take long to end by itself.
        end_group(process.pid, seconds=_GRACE_SECONDS)
        cds.remove_unfinished(self._home)
        (self._home.root / _RECORD).unlink(missing_ok=True)
        return True

    def run_in_background(self, *, awaited: bool = False) -> None:
        """Build in this process, at idle priority unless `awaited`, and keep the progress file up to date."""
        with self._starting():  # until the starting process has written the file
            pass
        record = self._read() or {}
        try:
            training = self._training()
            if not awaited:
                lower_priority()  # only now, since a lake or database that the line above starts inherits the priority
            _train_patiently(training, lambda progress: self._write({**record, **progress}))
        except PenstockError as error:
            self._write({**record, "problem": error.problem, "why": error.why})
            raise
        except Exception as error:
            self._write({**record, "problem": "The build failed", "why": f"{type(error).__name__}: {error}"})
            raise
        (self._home.root / _RECORD).unlink(missing_ok=True)

    def _starting(self) -> Any:
        busy = "Another command is starting the build of the class-data archives"
        return self._home.lock(_STARTING, busy=busy, wait_seconds=_STARTING_SECONDS)

    def _process(self) -> ProcessId | None:
        """The running background process."""
        record = self._read()
        process = ProcessId.from_json(record["process"]) if record else None
        return process if process and process.alive() else None

    def _read(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = read_json(self._home.root / _RECORD)
        return found

    def _write(self, record: Mapping[str, Any]) -> None:
        write_json(self._home.root / _RECORD, record)


def _train_patiently(training: Callable[..., None], record: Callable[[Mapping[str, Any]], None]) -> None:
    """Train; after a failure on a busy machine, where Spark's timeouts pass, wait for idle time and try again."""
    for attempt in range(1, _ATTEMPTS + 1):
        spare, began = SpareTime(), time.monotonic()
        record({})
        try:
            training(report=lambda written: record({"written": written}), clock=spare)
        except ClusterError as error:
            lasted = time.monotonic() - began
            if attempt == _ATTEMPTS or lasted < _TIMEOUT_SECONDS or spare() > _BUSY_SHARE * lasted:
                raise
            print(f"attempt {attempt} on a busy machine: {error}", file=sys.stderr, flush=True)
            record({"waiting": True})
            idle = SpareTime()
            while idle() < _SPARE_SECONDS:
                time.sleep(1.0)
        else:
            return


def main(home: Home, *, awaited: bool) -> int:
    try:
        ClassArchives(home).run_in_background(awaited=awaited)
    except PenstockError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Home(Path(sys.argv[1])), awaited=_AWAITED in sys.argv[2:]))
