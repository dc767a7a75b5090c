"""Listing times of the history server: `python -m benchmarks.service.history_of_many HOME --applications 10000`.

The event logs are generated and short: the program measures how the server finds and lists them in the lake, which
precedes any page, once without and once with the server's store of an earlier run. Times are seconds. Give it a home of
its own: the logs stay in its lake for the next run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyspark

from benchmarks.service.generated_records import measured
from benchmarks.service.reporting import progress
from penstock.engine.engine import Engine
from penstock.engine.interactive.history import HistoryServers
from penstock.engine.interactive.history_watchdog import STATE
from penstock.home import Home, read_json
from penstock.lake.model import EVENT_LOGS
from penstock.processes import ProcessId

_BEGAN_MS = 1_795_000_000_000
_WRITERS = 16
_PATIENCE_SECONDS = 1800.0
_LOOK_SECONDS = 3.0


def event_log(number: int) -> bytes:
    """Event log of an application that did nothing for a second."""
    at = _BEGAN_MS + number * 1000
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": pyspark.__version__},
        {
            "Event": "SparkListenerEnvironmentUpdate",
            "JVM Information": {"Java Version": "17"},
            "Spark Properties": {f"spark.made.up.{n}": "value" for n in range(100)},
            "Hadoop Properties": {},
            "System Properties": {},
            "Metrics Properties": {},
            "Classpath Entries": {},
        },
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": f"made-up-{number}",
            "App ID": f"penstock-{at}-{number}",
            "Timestamp": at,
            "User": "load",
        },
        {"Event": "SparkListenerApplicationEnd", "Timestamp": at + 1000},
    ]
    # Without spaces: the server recognizes the events that it lists by the beginnings of their lines.
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()


def fill(engine: Engine, count: int) -> None:
    """Add the event logs that the lake does not hold yet."""
    store = engine.store(None)
    there = {found.key for found in store.list(EVENT_LOGS)}
    names = {number: f"{EVENT_LOGS}app-load-{number}~made-up" for number in range(count)}
    with ThreadPoolExecutor(_WRITERS) as pool:
        missing = [number for number, name in names.items() if name not in there]
        for done, _ in enumerate(pool.map(lambda number: store.put(names[number], event_log(number)), missing), 1):
            if done % 1000 == 0:
                progress(f"{done} of {len(missing)} logs are in the lake")


def shown(home: Home, history: HistoryServers, lake: str, count: int) -> Iterator[tuple[str, float]]:
    """Yield the measurements of one start of the server, each with its name.

    First come the seconds until the server listens, lists a first application, and lists all of them; then the seconds
    that pages take (one application, fifty, all of them, Spark's own page of the list); then its peak memory in MiB.
    """
    began = time.perf_counter()
    host, port = history.address(lake)
    yield "listening", time.perf_counter() - began
    address = f"http://{host}:{port}/api/v1/applications"
    listed, first = 0, False
    while listed < count:
        if time.perf_counter() - began > _PATIENCE_SECONDS:
            raise TimeoutError(f"{listed} of {count} listed")
        # Polled rarely: a list of thousands costs the server as much as reading a few logs.
        time.sleep(_LOOK_SECONDS if first else 0.2)
        listed = len(httpx.get(address, timeout=120).json())
        progress(f"{listed} of {count} are listed")
        history.address(lake)
        if listed and not first:
            first = True
            yield "first listed", time.perf_counter() - began
    yield "all listed", time.perf_counter() - began
    for what, page in (
        ("one application", f"{address}/{httpx.get(address, params={'limit': 1}).json()[0]['id']}"),
        ("fifty", f"{address}?limit=50"),
        ("all of them", address),
        ("the page of the list", f"http://{host}:{port}/"),
    ):
        asked = time.perf_counter()
        httpx.get(page, timeout=120).raise_for_status()
        yield what, time.perf_counter() - asked
    yield "memory_mib", _most_memory(home, lake) >> 20


def _most_memory(home: Home, lake: str) -> int:
    server = ProcessId.from_json(read_json(home.root / "history" / lake / STATE)["server"])
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def run(home: Home, count: int) -> Mapping[str, Mapping[str, float]]:
    engine = Engine(home)
    lake = engine.lake().name
    began = time.perf_counter()
    fill(engine, count)
    history = HistoryServers(engine)
    result: dict[str, Mapping[str, float]] = {"fill": {"seconds": round(time.perf_counter() - began, 1)}}
    for name in ("cold", "again"):
        result[name] = {what: round(value, 2) for what, value in shown(home, history, lake, count)}
        history.stop(lake)
        progress(f"{name}: {result[name]}")
    return result


if __name__ == "__main__":
    raise SystemExit(measured("history_of_many", __doc__, run))
