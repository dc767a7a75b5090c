"""Real applications through a service while what serves them is killed: each ends once, and in the right state.

    python -m benchmarks.service.ends_under_kill HOME --submissions 1000 --kills 20

Of a hundred applications 84 finish, ten fail by themselves, five are stopped, one takes too long. Meanwhile the
service, a supervisor, the database and the store are killed, each equally often, in an order and at moments by chance.
Only the service is started again, at once, as a Deployment would; the rest Penstock has to bring back, and to try the
applications that were hit again. Told is also how late a client that follows the service is shown what happens.

With `--cluster FILE --host ADDRESS` they run on Kubernetes, and `--kill-node COMMAND` (a shell command, once for each
node) takes the place of database and store. What was seen of each application is kept as a line of
HOME/ends_under_kill.jsonl. Ends with 1 where a claim is broken.
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
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service import endings
from benchmarks.service.endings import Change, Ending, Program, Shown
from benchmarks.service.queue_under_kill import quantile
from benchmarks.service.reporting import progress, spread, told
from benchmarks.service.served import Killer, Service, token_of_its_own
from benchmarks.service.submitting import Submitters
from penstock import Client
from penstock.catalog.database import Database
from penstock.clusters.choice import VARIABLE
from penstock.engine.application import State
from penstock.engine.engine import Engine
from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import Lakes
from tests.support import quick_java
from tests.support.reachable_services import LAKE, lake_and_database

PROGRAM = f"""
import sys, time, urllib.request, uuid
from pyspark.sql import SparkSession
name, way, witness = sys.argv[1:]
run = uuid.uuid4().hex
def say(what):
    urllib.request.urlopen(f"{{witness}}/{{name}}/{{run}}/{{what}}", data=b"", timeout=30).close()
say("began")
spark = SparkSession.builder.getOrCreate()
# On an executor, and without a Python worker of its own.
assert spark.sparkContext._jsc.parallelize(list(range(100)), 2).count() == 100
if way in ("is-stopped", "takes-too-long"):
    time.sleep(3600)
say("ended")
sys.exit({endings.EXIT_CODE} if way == "fails" else 0)
"""
_SIZE = {"driver": {"cores": 1, "memory": "512m"}, "executor": {"cores": 1, "memory": "512m"}, "executors": 1}
_RETRIES = 10
_TOO_LONG_SECONDS = 30.0
_AT_ONCE = 4
_STEP = 25
_PATIENCE_SECONDS = 600.0
_SHOWN_FAILURES = 20


class Witness(ThreadingHTTPServer):
    """Hears from every program when it begins and when it has come to its last line."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Hearing)
        self.programs: dict[str, dict[str, Program]] = {}
        """By the application's name and the program's own id."""
        self.address = f"http://{host}:{self.server_port}"
        self._hearing = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def hear(self, name: str, program: str, what: str) -> None:
        with self._hearing:
            if what == "began":
                self.programs.setdefault(name, {})[program] = Program(time.time())
            else:
                self.programs[name][program].ended = time.time()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Hearing(BaseHTTPRequestHandler):
    server: Witness

    def do_POST(self) -> None:
        _, name, program, what = self.path.split("/")
        self.server.hear(name, program, what)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class Follower:
    """A client of the service as the console is one: it follows what changes, and lists anew when it comes back.

    It also asks for the end of those that are to be stopped, once it sees them run.
    """

    def __init__(self, url: str, token: str, ways: Mapping[str, str]) -> None:
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )
        self._ways = ways
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.shown: dict[str, list[Shown]] = {}
        """By the application's name."""
        self.ended = 0
        self.came_back = 0

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
            self.came_back += 1
            self._over.wait(0.1)

    def _follow(self) -> None:
        with self._client.stream("GET", "/v1/changes") as answer:
            answer.raise_for_status()
            listed, kind = False, ""
            for line in answer.iter_lines():
                if self._over.is_set():
                    return
                if not listed:
                    self._list()
                    listed = True
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: ") and kind == "application":
                    self._see(json.loads(line.removeprefix("data: ")))

    def _list(self) -> None:
        page = None
        while True:
            parameters = {"limit": 200, **({"page": page} if page else {})}
            answer = self._client.get("/v1/applications", params=parameters)
            answer.raise_for_status()
            listed = answer.json()
            for application in listed["items"]:
                self._see(application)
            page = listed["next"]
            if page is None:
                return

    def _see(self, application: Mapping[str, Any]) -> None:
        name, state = application["name"], State(application["state"])
        if name not in self._ways:
            return
        shown = self.shown.setdefault(name, [])
        if shown and shown[-1].state is state:
            return
        shown.append(Shown(state, time.time()))
        if state is State.RUNNING and self._ways[name] == endings.IS_STOPPED:
            self._client.post(f"/v1/applications/{application['id']}/stop").raise_for_status()
        if state.final:
            self.ended += 1


def a_supervisor(home: Home, chance: random.Random) -> bool:
    found = supervisors(home)
    return bool(found) and _killed(chance.choice(found))


def supervisors(home: Home) -> list[int]:
    """The processes that look after one application each; not the one that forks them, which reads from a pipe."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            forked = b"penstock.engine.forkserver" in words or b"penstock.engine.background" in words
            if forked and os.fsencode(home.root) in words and (process / "fd/0").readlink() == Path(os.devnull):
                found.append(int(process.name))
    return found


def the_database(home: Home) -> bool:
    known = Database(home).process()
    return known is not None and _killed(known.pid)


def the_store(home: Home) -> bool:
    pid = EmbeddedLake(home).status().process_id
    return pid is not None and _killed(pid)


def nodes(commands: Sequence[str]) -> Callable[[], bool]:
    """Each command in its turn, and then from the first on."""
    turns = itertools.cycle(commands)

    def kill() -> bool:
        subprocess.run(next(turns), shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S602
        return True

    return kill


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_for_all(follower: Follower, count: int) -> None:
    """Until the client has seen that many end; raises `SystemExit` where none ends for ten minutes."""
    ended, since = 0, time.monotonic()
    while ended < count:
        time.sleep(0.2)
        if follower.ended > ended:
            if follower.ended // _STEP > ended // _STEP:
                progress(f"{follower.ended} of {count} have ended")
            ended, since = follower.ended, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_SECONDS:
            return


def recorded(engine: Engine, id_: str, seen: Ending) -> Ending:
    """What outsiders saw of an application, with what its record says."""
    application = engine.get(id_)
    changes = [
        Change(State(event["to_state"]), event["at"].timestamp())
        for event in engine.events(id_)
        if event["to_state"] != event["from_state"]
    ]
    why = "" if application.reason is None else application.reason.code
    return replace(seen, exit_code=application.exit_code, attempts=application.attempt, why=why, changes=changes)


def run(home: Home, given: argparse.Namespace, victims: Mapping[str, Callable[[], bool]]) -> dict[str, Any]:
    """`victims` are those beside the service."""
    names = [f"load-{number}" for number in range(given.submissions)]
    ways = {name: endings.way_of(number) for number, name in enumerate(names)}
    engine, token = Engine(home), token_of_its_own(home)
    program = home.root / "load.py"
    program.write_text(PROGRAM)
    chance = random.Random(given.seed)
    with contextlib.closing(Witness(given.host)) as witness, contextlib.ExitStack() as ending:
        service = ending.enter_context(Service(home))
        address = Client(service.url, token=token).upload(program)
        follower = ending.enter_context(Follower(service.url, token, ways))
        killer = ending.enter_context(
            Killer(
                {"service": service.kill, **victims},
                times=given.kills,
                seconds=tuple(given.seconds_between_kills),
                chance=chance,
            )
        )
        began, started = time.monotonic(), time.time()
        bodies = [body(name, way, address, witness.address) for name, way in ways.items()]
        ids = [first.id for first, _ in Submitters(service.port, token, at_once=_AT_ONCE).submit(bodies)]
        progress(f"{given.submissions} are submitted in {time.monotonic() - began:.0f} s")
        wait_for_all(follower, given.submissions)
        took = time.monotonic() - began
    found = []
    for name, id_ in zip(names, ids, strict=True):
        programs = list(witness.programs.get(name, {}).values())
        seen = Ending(name, ways[name], programs=programs, shown=follower.shown.get(name, ()))
        found.append(recorded(engine, id_, seen))
    with (home.root / "ends_under_kill.jsonl").open("w", encoding="utf-8") as raw:
        raw.writelines(json.dumps(asdict(one)) + "\n" for one in found)
    kills = [f"{name} after {at - started:.0f} s" for name, at in killer.killed]
    return {**summary(found, given.kills, [name for name, _ in killer.killed]), "kills": kills, "seconds": round(took)}


def body(name: str, way: str, program: str, witness: str) -> dict[str, Any]:
    return {
        "application": program,
        "name": name,
        "size": _SIZE,
        "arguments": [name, way.replace(" ", "-"), witness],
        "retries": _RETRIES,
        **({"time_limit_seconds": _TOO_LONG_SECONDS} if way == endings.TAKES_TOO_LONG else {}),
    }


def summary(found: Sequence[Ending], kills: int, killed: Sequence[str]) -> dict[str, Any]:
    broken = [claim for ending in found for claim in endings.wrong(ending)]
    if len(killed) < kills:
        broken.append(f"{len(killed)} of {kills} kills were done when all had ended")
    late = [seconds for ending in found for seconds in endings.late_states(ending)]
    ends = [seconds for ending in found if (seconds := endings.late_end(ending)) is not None]
    return {
        "submissions": len(found),
        "killed": dict(Counter(killed)),
        "states": dict(Counter("none" if ending.state is None else ending.state.value for ending in found)),
        "attempts": dict(sorted(Counter(ending.attempts for ending in found).items())),
        "a recorded state is shown after, seconds": _lateness(late),
        "an end is shown after the program's last line, seconds": _lateness(ends),
        "broken": broken[:_SHOWN_FAILURES],
        "broken in all": len(broken),
    }


def _lateness(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {**spread(seconds, 2), "99 of 100": round(quantile(seconds, 0.99), 2), "count": len(seconds)}


@contextlib.contextmanager
def on_this_machine(home: Home, chance: random.Random) -> Iterator[Mapping[str, Callable[[], bool]]]:
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    # As after some days of use; a thousand starts without them take twice as long.
    installation.archives_made()
    try:
        yield {
            "supervisor": lambda: a_supervisor(home, chance),
            "database": lambda: the_database(home),
            "store": lambda: the_store(home),
        }
    finally:
        list(installation.down())


@contextlib.contextmanager
def on_kubernetes(
    home: Home, given: argparse.Namespace, chance: random.Random
) -> Iterator[Mapping[str, Callable[[], bool]]]:
    with lake_and_database(home, given.host) as database:
        os.environ.update({**database, VARIABLE: str(given.cluster.absolute())})
        Lakes(home).set_default(LAKE)
        killed = {"node": nodes(given.kill_node)} if given.kill_node else {}
        yield {"supervisor": lambda: a_supervisor(home, chance), **killed}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--submissions", type=int, default=1000)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", default="1")
    options.add_argument(
        "--seconds-between-kills", type=float, nargs=2, default=(40.0, 180.0), metavar=("LEAST", "MOST")
    )
    options.add_argument("--cluster", type=Path, help="a cluster file: run them on Kubernetes")
    options.add_argument("--host", default="127.0.0.1", help="an address of this machine that applications reach")
    options.add_argument("--kill-node", action="append", default=[], metavar="COMMAND")
    given = options.parse_args()
    home, chance = Home(given.home.absolute()), random.Random(given.seed)
    home.create()
    java = home.root / "java"
    java.mkdir()
    with quick_java.used(quick_java.make_home(java)):
        place = on_kubernetes(home, given, chance) if given.cluster else on_this_machine(home, chance)
        with place as victims:
            return told(home, "ends_under_kill", run(home, given, victims))


if __name__ == "__main__":
    raise SystemExit(main())
