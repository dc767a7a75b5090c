"""The whole way in one command, in a home of its own: lake, catalog, data, queries, answers, report.

It leaves nothing running. Killed at any point and started again it goes on: data that is loaded is used, servers a
killed demo left are taken over, its applications ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.home import Home, read_json, write_json
from penstock.lab import runner
from penstock.lab.bench import Bench
from penstock.lab.experiment import Arm, Plan
from penstock.lab.interruptions import ended_in_order, undisturbed
from penstock.lab.progress import Terminal
from penstock.lab.records import Run
from penstock.lab.report import make
from penstock.lab.suites.tpcds import Tpcds
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import EMBEDDED
from penstock.model import ClusterSize

_STEPS = 7


def run_demo(home: Home, suite: Tpcds, size: ClusterSize, report: Path, console: Console) -> Run:
    """Everything from an empty directory to the report; stops what it started, however it ends.

    Raises `StateError` when another demo runs in this home.
    """
    busy = f"Another demo is running in {home.root}"
    with home.lock("demo", busy=busy), ended_in_order():
        _announce(console, home, suite, report)
        with Terminal(console, steps=_STEPS).showing() as listener, _servers(home, listener) as bench:
            (run,) = runner.measure(lambda _: bench, [Arm("Penstock", suite, size)], Plan(), listener)
            listener.step("Write the report")
            report.write_text(make.as_html([run]), encoding="utf-8")
        return run


def minutes(scale: float) -> int:
    """About how long it takes on two cores, downloads apart: starting and planning, then what grows with the data."""
    return round(3 + 3 * scale)


def _announce(console: Console, home: Home, suite: Tpcds, report: Path) -> None:
    console.print(
        f"[bold]Penstock demo[/bold]: TPC-DS at scale {suite.scale:g}, about {minutes(suite.scale)} "
        "minutes on two cores (less where the data is there already).",
        highlight=False,
    )
    console.print(
        f"An object store and a table catalog start in {home.root}; a Spark application generates the data;\n"
        f"{len(suite.queries)} queries run on a cluster of their own; DuckDB checks every answer; the report goes\n"
        f"to {report}. At the end nothing is left running, and the data stays for the next time.\n",
        highlight=False,
        soft_wrap=True,
    )


@contextlib.contextmanager
def _servers(home: Home, listener: Terminal) -> Iterator[Bench]:
    """Lake and catalog up inside, down after: those the demo started, also one that was killed."""
    lake, database = EmbeddedLake(home), Database(home)
    mark = home.root / "demo.json"
    ours: list[str] = (read_json(mark) or {}).get("started", [])
    stops: dict[str, Callable[[], object]] = {"lake": lake.down, "database": database.down}

    def start(name: str, running: bool, up: Callable[[], object]) -> None:
        if not running and name not in ours:
            ours.append(name)
            write_json(
                mark, {"started": ours}
            )  # before the start: a kill in between leaves a mark, never a stray server
        up()

    try:
        listener.step("Start the lake")
        start("lake", lake.status().ready, lake.up)
        listener.step("Start the catalog")
        start("database", database.status().state == "up", database.up)
        bench = Bench.open(home, EMBEDDED)
        _end_strays(bench.engine)
        yield bench
    except BaseException:
        listener.failed()
        raise
    finally:
        listener.step("Stop what was started")
        with undisturbed():
            for name in reversed(ours):
                stops[name]()
            mark.unlink(missing_ok=True)
        listener.done()


def _end_strays(engine: Engine) -> None:
    """Applications of a demo that was killed: nobody waits for them any more."""
    for application in engine.list():
        if not application.state.final:
            engine.stop(application.id)
