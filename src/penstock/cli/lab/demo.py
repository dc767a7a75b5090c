"""`penstock demo`: lake, catalog, data, queries, verified answers and report in one command, in a separate home.

It leaves nothing running. A demo that was killed at any point can be started again: it reuses loaded data, takes over
servers that were left running, and stops applications that were left running.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.catalog.database import Database
from penstock.cli.lab import reports
from penstock.cli.lab.measure import await_archives
from penstock.cli.output import plain_console
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput
from penstock.home import Home, read_json, write_json
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.progress import TerminalProgress
from penstock.lab.records import Run
from penstock.lab.report.report import as_html
from penstock.lab.runner import ignoring_signals, unwinding_on_signals
from penstock.lab.workloads.tpcds import Tpcds
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import EMBEDDED
from penstock.model import ClusterSize


def demo(
    scale: Annotated[float, typer.Option(help="TPC-DS scale factor; 0.1 is quicker.", min=0.001)] = 1,
    report: Annotated[Path, typer.Option(help="File of the report.")] = Path("penstock-demo.html"),
) -> None:
    """Run TPC-DS end to end in a separate home: lake, catalog, data, 104 queries, verified answers, report."""
    os.environ.setdefault("PENSTOCK_HOME", str(Path(".demo").absolute()))
    from penstock.cli.lab.options import usual_size
    from penstock.lab.workloads.tpcds import Tpcds

    _require_writable(report)
    console = plain_console()
    run = run_demo(Home.default(), Tpcds(scale=scale), usual_size(), report.absolute(), console)
    reports.show(console, [run])
    console.print(f"Report: {report.absolute()}", soft_wrap=True)
    reports.end_as([run])


def _require_writable(report: Path) -> None:
    """Refuse a report that could not be written, before the measurement of many minutes."""
    is_new = not os.path.lexists(report)
    try:
        report.open("a").close()
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {report}",
            why=error.strerror or str(error),
            fix="choose another file with --report, in a directory that you can write",
        ) from error
    if is_new:
        report.unlink()


_STEPS = 7


def run_demo(home: Home, suite: Tpcds, size: ClusterSize, report: Path, console: Console) -> Run:
    """Run the demo from an empty directory to the report; stops all servers that it started, also after errors.

    Raises `StateError` if another demo runs in this home.
    """
    busy = f"Another demo is running in {home.root}"
    with home.lock("demo", busy=busy), unwinding_on_signals():
        _announce(console, home, suite, report)
        with TerminalProgress(console, steps=_STEPS).showing() as listener:
            await_archives(home, listener)
            with _servers(home, listener) as bench:
                (run,) = runner.measure(lambda _: bench, [Arm("Penstock", suite, size)], MeasurementPlan(), listener)
                listener.step("Write the report")
                reports.write_report(report, as_html([run]))
        return run


def minutes(scale: float) -> int:
    """Estimated minutes on two cores without downloads: a constant for starts and planning, and a part per scale."""
    return round(3 + 3 * scale)


def _announce(console: Console, home: Home, suite: Tpcds, report: Path) -> None:
    about = (
        f": TPC-DS at scale {suite.scale:g}, about {minutes(suite.scale)} "
        "minutes on two cores (less if the data exists already)."
    )
    console.print(Text.assemble(("Penstock demo", "bold"), about))
    console.print(
        f"An object store and a table catalog start in {home.root}; a Spark application generates the data;\n"
        f"{len(suite.queries)} queries run on a dedicated cluster; DuckDB verifies every answer; the report goes\n"
        f"to {report}. At the end nothing is left running; the data is kept for the next demo.\n",
        soft_wrap=True,
    )


@contextlib.contextmanager
def _servers(home: Home, listener: TerminalProgress) -> Iterator[Environment]:
    """Lake and catalog while in the block; stops those that this demo, or a killed one, started."""
    lake, database = EmbeddedLake(home), Database(home)
    mark = home.root / "demo.json"
    ours: list[str] = (read_json(mark) or {}).get("started", [])
    stops: dict[str, Callable[[], object]] = {"lake": lake.down, "database": database.down}

    def start(name: str, running: bool, up: Callable[[], object]) -> None:
        if not running and name not in ours:
            ours.append(name)
            write_json(
                mark, {"started": ours}
            )  # written before the start: a kill in between leaves a mark, never an unknown server
        up()

    try:
        listener.step("Start the lake")
        start("lake", lake.status().ready, lake.up)
        listener.step("Start the catalog")
        start("database", database.status().state == "up", database.up)
        bench = Environment.open(home, EMBEDDED)
        _end_strays(bench.engine)
        yield bench
    except BaseException:
        listener.failed()
        raise
    finally:
        listener.step("Stop lake and catalog")
        with ignoring_signals():
            for name in reversed(ours):
                stops[name]()
            mark.unlink(missing_ok=True)
        listener.done()


def _end_strays(engine: Engine) -> None:
    """Stop applications that a killed demo left running."""
    for application in engine.list():
        if not application.state.final:
            engine.stop(application.id)
