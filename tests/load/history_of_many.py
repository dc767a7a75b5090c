"""How soon the history server shows something: `python -m tests.load.history_of_many HOME --applications 10000`.

The event logs are made up and short: what is measured is finding and listing them in the lake, which comes before any
page, once without and once with what the server has kept from before. Prints one JSON object, times in seconds. Give it
a home of its own: the logs stay in its lake.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pyspark
from tests.load.made_up import measured

from penstock.engine.artefacts import EVENTS
from penstock.engine.engine import Engine
from penstock.engine.history import History
from penstock.home import Home

_BEGAN_MS = 1_795_000_000_000
_WRITERS = 16
_PATIENCE_SECONDS = 1800.0


def event_log(number: int) -> bytes:
    """Of an application that did nothing for a second."""
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
    # Without spaces: the server looks for what it lists by how the line begins.
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()


def fill(engine: Engine, count: int) -> None:
    store = engine.store(None)
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(lambda number: store.put(f"{EVENTS}app-load-{number}~made-up", event_log(number)), range(count)))


def shown(history: History, lake: str, count: int) -> Iterator[tuple[str, float]]:
    """What was seen when, from the start: the server listening, a first application, all of them, the page of all."""
    began = time.perf_counter()
    host, port = history.look(lake)
    yield "listening", time.perf_counter() - began
    address = f"http://{host}:{port}/api/v1/applications"
    listed, first = 0, False
    while listed < count:
        if time.perf_counter() - began > _PATIENCE_SECONDS:
            raise TimeoutError(f"{listed} of {count} listed")
        listed = len(httpx.get(address, timeout=120).json())
        history.look(lake)
        if listed and not first:
            first = True
            yield "first listed", time.perf_counter() - began
        time.sleep(0.2)
    yield "all listed", time.perf_counter() - began
    asked = time.perf_counter()
    httpx.get(address, timeout=120)
    yield "one list of all", time.perf_counter() - asked


def run(home: Home, count: int) -> Mapping[str, Mapping[str, float]]:
    engine = Engine(home)
    lake = engine.lake().name
    fill(engine, count)
    history = History(engine)
    result = {}
    for name in ("cold", "again"):
        result[name] = {what: round(seconds, 2) for what, seconds in shown(history, lake, count)}
        history.stop(lake)
    return result


if __name__ == "__main__":
    measured(__doc__, run)
