"""Load of real applications on a service while its parts are killed: each must end once, in the right state.

    python -m benchmarks.service.outcomes_under_kill HOME --submissions 1000 --kills 20

Of a hundred applications 84 finish, ten fail by themselves, five are stopped and one takes too long. Meanwhile the
service, supervisors, the database and the store are killed, each equally often, in random order and at random moments.
Only the service is started again, at once, as a Deployment would do it; Penstock itself has to bring back the rest and
to retry the applications that were hit. The result also says how late a client that follows the service observes each
state.

With `--cluster FILE --host ADDRESS` the applications run on Kubernetes, and `--kill-node COMMAND` (a shell command,
once for each node) replaces database and store. HOME/outcomes_under_kill.jsonl has a line for each application. The
command ends with 1 where a claim is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from benchmarks.service import outcomes
from benchmarks.service.outcomes import Outcome, ProgramRun, StateAt
from benchmarks.service.queue_under_kill import quantile
from benchmarks.service.reporting import progress, report_result, spread
from benchmarks.service.served import Killer, Service, token_of_its_own
from benchmarks.service.submitting import Submitters
from penstock import Client
from penstock.catalog.database import Database
from penstock.clusters.choice import VARIABLE
from penstock.engine.engine import Engine
from penstock.engine.installation import Installation
from penstock.engine.policy.scheduling import Instance, Quota
from penstock.home import Home
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import Lakes
from penstock.model import State
from tests.support import quick_java
from tests.support.reachable_services import LAKE, lake_and_database

PROGRAM = f"""
import sys, time, urllib.request, uuid
from pyspark.sql import SparkSession
name, kind, observer = sys.argv[1:]
run = uuid.uuid4().hex
def report(event):
    urllib.request.urlopen(f"{{observer}}/{{name}}/{{run}}/{{event}}", data=b"", timeout=30).close()
report("began")
spark = SparkSession.builder.getOrCreate()
# A job on an executor, without a Python worker.
assert spark.sparkContext._jsc.parallelize(list(range(100)), 2).count() == 100
if kind in ("is-stopped", "takes-too-long"):
    time.sleep(3600)
report("ended")
sys.exit({outcomes.EXIT_CODE} if kind == "fails" else 0)
"""
_SIZE = {"driver": {"cores": 1, "memory": "512m"}, "executor": {"cores": 1, "memory": "512m"}, "executors": 1}
_QUEUE = "load"
_RETRIES = 10
_TIME_LIMIT_SECONDS = 30.0
_SUBMITTERS = 4
_PROGRESS_STEP = 25
_PATIENCE_SECONDS = 600.0
_MOST_LISTED_VIOLATIONS = 20

Victims = Mapping[str, Callable[[], bool]]
"""Ways to kill one process of a kind; each returns False where none runs at the moment."""


class ProgramObserver(ThreadingHTTPServer):
    """Server to which every program reports its first and its last line."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _ReportHandler)
        self.address = f"http://{host}:{self.server_port}"
        self._runs: dict[str, dict[str, ProgramRun]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def record(self, name: str, run: str, event: str) -> None:
        with self._lock:
            if event == "began":
                self._runs.setdefault(name, {})[run] = ProgramRun(time.time())
            else:
                self._runs[name][run].ended = time.time()

    def runs_of(self, name: str) -> list[ProgramRun]:
        with self._lock:
            return list(self._runs.get(name, {}).values())

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _ReportHandler(BaseHTTPRequestHandler):
    server: ProgramObserver

    def do_POST(self) -> None:
        _, name, run, event = self.path.split("/")
        self.server.record(name, run, event)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Suppress the access log."""


class Follower:
    """Client that follows the service as the console does.

    It reads the stream of changes and lists all applications each time it connects. It requests the stop of the
    applications that are to be stopped, until the service accepts it.
    """

    def __init__(self, url: str, token: str, kinds: Mapping[str, str]) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)
        self._kinds = kinds
        self._stop_accepted: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.observed: dict[str, list[StateAt]] = {}
        """Changes of state by the application's name, in the order of their observation."""
        self.ended = 0
        self.connections = 0

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(httpx.HTTPError):
                self._follow()
            self._over.wait(0.1)

    def _follow(self) -> None:
        with self._client.stream("GET", "/v1/changes") as response:
            response.raise_for_status()
            self.connections += 1
            event = ""
            # The first line proves that changes are queued for this client from now on: nothing falls between.
            for number, line in enumerate(response.iter_lines()):
                if self._over.is_set():
                    return
                if number == 0:
                    self._list_all()
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: ") and event == "application":
                    self._observe(json.loads(line.removeprefix("data: ")))

    def _list_all(self) -> None:
        page: dict[str, str] = {}
        while True:
            response = self._client.get("/v1/applications", params={"limit": 200, **page})
            response.raise_for_status()
            listed = response.json()
            for application in listed["items"]:
                self._observe(application)
            if listed["next"] is None:
                return
            page = {"page": listed["next"]}

    def _observe(self, application: Mapping[str, Any]) -> None:
        name, state = application["name"], State(application["state"])
        if name not in self._kinds:
            return
        observed = self.observed.setdefault(name, [])
        if not observed or observed[-1].state is not state:
            observed.append(StateAt(state, time.time()))
            self.ended += state.final
        if state is State.RUNNING and self._kinds[name] == outcomes.IS_STOPPED and name not in self._stop_accepted:
            self._client.post(f"/v1/applications/{application['id']}/stop").raise_for_status()
            self._stop_accepted.add(name)


def kill_supervisor(home: Home, chance: random.Random) -> bool:
    found = supervisors(home)
    return bool(found) and _kill(chance.choice(found))


def supervisors(home: Home) -> list[int]:
    """Ids of the processes that each supervise one application.

    The prefork server that forks them is not among them: it reads its commands from a pipe.
    """
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            ours = b"penstock.engine.supervisor_process" in words
            if ours and os.fsencode(home.root) in words and (process / "fd/0").readlink() == Path(os.devnull):
                found.append(int(process.name))
    return found


def kill_database(home: Home) -> bool:
    process = Database(home).process()
    return process is not None and _kill(process.pid)


def kill_store(home: Home) -> bool:
    pid = EmbeddedLake(home).status().process_id
    return pid is not None and _kill(pid)


def kill_nodes(commands: Sequence[str]) -> Callable[[], bool]:
    """A victim that runs the next of the commands each time, and the first again after the last."""
    turns = itertools.cycle(commands)

    def kill() -> bool:
        subprocess.run(next(turns), shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S602
        return True

    return kill


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_for_all(follower: Follower, count: int) -> None:
    """Return when the client has observed that many ends, or none for ten minutes."""
    ended, since = 0, time.monotonic()
    while ended < count and time.monotonic() - since < _PATIENCE_SECONDS:
        time.sleep(0.2)
        if follower.ended > ended:
            if follower.ended // _PROGRESS_STEP > ended // _PROGRESS_STEP:
                progress(f"{follower.ended} of {count} have ended")
            ended, since = follower.ended, time.monotonic()


def run(home: Home, given: argparse.Namespace, victims: Victims) -> dict[str, Any]:
    """Submit applications, kill the service and the other `victims` meanwhile, and check the outcomes."""
    kinds = {f"load-{number}": outcomes.kind_of(number) for number in range(given.submissions)}
    engine, token = Engine(home), token_of_its_own(home)
    engine.queues.put(Instance(_QUEUE, quota=Quota(running=given.running)))
    program = home.root / "load.py"
    program.write_text(PROGRAM)
    with contextlib.ExitStack() as stack:
        observer = stack.enter_context(contextlib.closing(ProgramObserver(given.host)))
        service = stack.enter_context(Service(home))
        address = Client(service.url, token=token).upload(program)
        follower = stack.enter_context(Follower(service.url, token, kinds))
        killer = Killer(
            {"service": service.kill, **victims},
            times=given.kills,
            seconds=tuple(given.seconds_between_kills),
            chance=random.Random(given.seed),
        )
        began = time.time()
        stack.enter_context(killer)
        bodies = [submission(name, kind, address, observer.address) for name, kind in kinds.items()]
        ids = [first.id for first, _ in Submitters(service.port, token, at_once=_SUBMITTERS).submit(bodies)]
        progress(f"{given.submissions} were submitted in {time.time() - began:.0f} s")
        wait_for_all(follower, given.submissions)
        seconds = time.time() - began
        found = [
            completed(
                Outcome(name, kinds[name], runs=observer.runs_of(name), observed=follower.observed.get(name, ())),
                engine,
                id_,
            )
            for name, id_ in zip(kinds, ids, strict=True)
        ]
    with (home.root / "outcomes_under_kill.jsonl").open("w", encoding="utf-8") as raw:
        raw.writelines(json.dumps(asdict(one)) + "\n" for one in found)
    return {
        **summary(found, given.kills, [name for name, _ in killer.killed]),
        "kills": [f"{name} after {at - began:.0f} s" for name, at in killer.killed],
        "connections of the client": follower.connections,
        "seconds": round(seconds),
    }


def submission(name: str, kind: str, program: str, observer: str) -> dict[str, Any]:
    """Body of the request that submits the application."""
    return {
        "application": program,
        "name": name,
        "instance": _QUEUE,
        "size": _SIZE,
        "arguments": [name, kind.replace(" ", "-"), observer],
        "retries": _RETRIES,
        **({"time_limit_seconds": _TIME_LIMIT_SECONDS} if kind == outcomes.TAKES_TOO_LONG else {}),
    }


def completed(outcome: Outcome, engine: Engine, id_: str) -> Outcome:
    """The outcome with what the application's record says."""
    application = engine.get(id_)
    changes = [event for event in engine.applications.events(id_) if event["to_state"] != event["from_state"]]
    return replace(
        outcome,
        exit_code=application.exit_code,
        attempts=application.attempt,
        reason="" if application.reason is None else application.reason.code,
        recorded=[StateAt(State(event["to_state"]), event["at"].timestamp()) for event in changes],
    )


def summary(found: Sequence[Outcome], kills: int, killed: Sequence[str]) -> dict[str, Any]:
    broken = [claim for outcome in found for claim in outcomes.violations(outcome)]
    if len(killed) < kills:
        broken.append(f"only {len(killed)} of {kills} kills were done before all had ended")
    completion = [lag for outcome in found if (lag := outcomes.completion_lag(outcome)) is not None]
    return {
        "submissions": len(found),
        "killed": dict(Counter(killed)),
        "states": dict(Counter("none" if outcome.state is None else outcome.state.value for outcome in found)),
        "attempts": dict(sorted(Counter(outcome.attempts for outcome in found).items())),
        "seconds from a state's record to its observation": _distribution(
            [lag for outcome in found for lag in outcomes.state_lags(outcome)]
        ),
        "seconds from a program's last line to the observation of its end": _distribution(completion),
        "broken": broken[:_MOST_LISTED_VIOLATIONS],
        "broken in all": len(broken),
    }


def _distribution(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {**spread(seconds, 2), "99 of 100": round(quantile(seconds, 0.99), 2), "count": len(seconds)}


@contextlib.contextmanager
def on_this_machine(home: Home, chance: random.Random) -> Iterator[Victims]:
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    # A home in daily use has class-data archives; a thousand starts without them take twice as long.
    installation.archives.build()
    try:
        yield {
            "supervisor": lambda: kill_supervisor(home, chance),
            "database": lambda: kill_database(home),
            "store": lambda: kill_store(home),
        }
    finally:
        list(installation.down())


@contextlib.contextmanager
def on_kubernetes(home: Home, given: argparse.Namespace, chance: random.Random) -> Iterator[Victims]:
    installation = Installation(home)
    try:
        with (
            lake_and_database(home, given.host) as database,
            patch.dict(os.environ, {**database, VARIABLE: str(given.cluster.absolute())}),
        ):
            Lakes(home).set_default(LAKE)
            nodes = {"node": kill_nodes(given.kill_node)} if given.kill_node else {}
            yield {"supervisor": lambda: kill_supervisor(home, chance), **nodes}
    finally:
        list(installation.down())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--submissions", type=int, default=1000)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--running", type=int, default=4, help="limit of the applications that run at once")
    options.add_argument("--seed", default="1", help="seed of the order and the times of the kills")
    options.add_argument("--seconds-between-kills", type=float, nargs=2, default=(40, 180), metavar=("LEAST", "MOST"))
    options.add_argument("--cluster", type=Path, help="a cluster file: the applications run on Kubernetes")
    options.add_argument("--host", default="127.0.0.1", help="an address of this machine that applications reach")
    options.add_argument("--kill-node", action="append", default=[], metavar="COMMAND")
    given = options.parse_args()
    home, chance = Home(given.home.absolute()), random.Random(given.seed)
    home.create()
    with tempfile.TemporaryDirectory() as java, quick_java.used(quick_java.make_home(Path(java))):
        place = on_kubernetes(home, given, chance) if given.cluster else on_this_machine(home, chance)
        with place as victims:
            return report_result(home, "outcomes_under_kill", run(home, given, victims))


if __name__ == "__main__":
    raise SystemExit(main())
