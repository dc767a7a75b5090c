"""Engines that write one Iceberg table at once while faults strike the catalog: every row once, none lost.

    python -m benchmarks.service.iceberg_race HOME --minutes 10 --kill-every 30 --cut-every 20

PyIceberg appends, DuckDB and Trino insert through the service's REST catalog, an application of Spark's merges through
the metastore. The catalog's process is killed, and of each 20 commits through the service one is made without its
answer reaching the client. Each writer writes numbered rows, one for a commit. One whose commit failed looks whether
its row is there, as the protocol asks for, and writes it again if it is not. A row that is there twice, or not at all,
is a mistaken outcome. HOME is a state directory of its own. The command ends with 1 where a claim is broken.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.service.reporting import progress, report_result
from penstock.engine.engines.trino import installation as trino_installation
from penstock.engine.installation import Installation
from penstock.home import Home
from tests.support.command import SMALL, Command
from tests.support.iceberg_clients import ask_trino, catalog, duckdb_client, kill_catalog, trino_client
from tests.support.service_process import Served, serving

ROWS = pa.schema([pa.field("writer", pa.string()), pa.field("number", pa.int64())])
PROPERTIES = {
    "commit.retry.num-retries": "50",
    # By default a writer that lost a few races waits for minutes.
    "commit.retry.max-wait-ms": "500",
    "write.merge.isolation-level": "snapshot",
}
SPARK = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
end, number, failed = time.time() + float(sys.argv[1]), 0, 0
while time.time() < end:
    try:
        spark.sql(f'''
            MERGE INTO race.counts c USING (SELECT 'spark' AS writer, {number}L AS number) s
            ON c.writer = s.writer AND c.number = s.number WHEN NOT MATCHED THEN INSERT *''')
        number += 1
    except Exception as error:
        failed += 1
        print(type(error).__name__, str(error)[:200], flush=True)
print("written", number, failed, flush=True)
spark.stop()
"""
PATIENCE_SECONDS = 60
PAUSE_SECONDS = 0.5
"""Between two commits of a writer, and between two looks of one whose commit failed."""


@dataclass
class Writer:
    """The rows of one writer, which are numbered from 0, and its failures by kind."""

    name: str
    written: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def run(self, write: Callable[[int], None], there: Callable[[int], bool], end: float) -> None:
        """Write rows until `end`, each until it is known to be there."""
        while time.monotonic() < end:
            try:
                write(self.written)
            except Exception as error:
                self.failures[type(error).__name__] += 1
                while (found := self._looked(there)) is None:
                    if time.monotonic() > end + PATIENCE_SECONDS:
                        raise TimeoutError(f"{self.name} cannot look for its row: {dict(self.failures)}") from error
                    time.sleep(PAUSE_SECONDS)
                if not found:
                    continue
                self.failures["was there"] += 1
            self.written += 1
            # A loop that commits at once, as DuckDB's can, leaves no time in which another's commit could succeed.
            time.sleep(PAUSE_SECONDS)

    def _looked(self, there: Callable[[int], bool]) -> bool | None:
        try:
            return there(self.written)
        except Exception as error:
            self.failures[f"look: {str(error)[:120]}"] += 1
            return None


class CuttingRelay:
    """Passes requests on to the service, and of each `every` commits keeps back the answer, closing the connection."""

    def __init__(self, url: str, every: int) -> None:
        relay, self.cuts, commits, lock = self, 0, itertools.count(1), threading.Lock()
        upstream = httpx.Client(base_url=url, timeout=600, trust_env=False)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                answer = upstream.request(self.command, self.path, content=body, headers=headers)
                is_commit = self.command == "POST" and self.path.endswith("/tables/counts")
                with lock:
                    cut = is_commit and answer.status_code == 200 and next(commits) % every == 0
                    relay.cuts += cut
                if cut:
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.content)

            do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - names of the base class

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


HOP = ("connection", "content-length", "content-encoding", "transfer-encoding", "host", "accept-encoding")
"""Headers that concern one connection, or the form in which a body was sent over it."""


def append(served: Served, writer: Writer, end: float) -> None:
    table = catalog(served).load_table("race.counts")

    def write(number: int) -> None:
        table.append(pa.table({"writer": [writer.name], "number": [number]}, schema=ROWS))

    def there(number: int) -> bool:
        return bool(_rows(table.refresh(), f"writer = '{writer.name}' and number = {number}"))

    writer.run(write, there, end)


def insert(served: Served, writer: Writer, end: float) -> None:
    with duckdb_client(served) as client:

        def write(number: int) -> None:
            client.execute("INSERT INTO lake.race.counts VALUES ('duckdb', ?)", [number])

        def there(number: int) -> bool:
            query = "SELECT 1 FROM lake.race.counts WHERE writer = 'duckdb' AND number = ?"
            return bool(client.execute(query, [number]).fetchall())

        writer.run(write, there, end)


def insert_by_trino(served: Served, writer: Writer, end: float, here: Path) -> None:
    here.mkdir(exist_ok=True)
    with trino_client(served, here) as trino:

        def write(number: int) -> None:
            ask_trino(trino, "INSERT INTO race.counts VALUES ('trino', ?)", number)

        def there(number: int) -> bool:
            query = "SELECT 1 FROM race.counts WHERE writer = 'trino' AND number = ?"
            return bool(ask_trino(trino, query, number))

        writer.run(write, there, end)


def _rows(table: Table, condition: str = "writer != ''") -> list[tuple[str, int]]:
    return [(row["writer"], row["number"]) for row in table.scan(condition).to_arrow().to_pylist()]


def merge(home: Home, writer: Writer, seconds: float) -> None:
    program = home.root / "race.py"
    program.write_text(SPARK, encoding="utf-8")
    # It runs as long as the race, and tests wait for five minutes at most.
    running = Command(home).start("run", *SMALL, str(program), str(seconds))
    output, errors = running.communicate()
    if running.returncode:
        raise RuntimeError(errors)
    _, written, failed = next(line.split() for line in output.splitlines() if line.startswith("written "))
    writer.written = int(written)
    writer.failures["failed"] = int(failed)


def kill(home: Home, every: float, over: threading.Event) -> int:
    kills = 0
    while not over.wait(every):
        kills += kill_catalog(home)
    return kills


def race(home: Home, minutes: float, kill_every: float, cut_every: int) -> int:
    trino_installation.require_installed()
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    over = threading.Event()
    appenders = [Writer("pyiceberg-1"), Writer("pyiceberg-2")]
    duck, trino, spark = Writer("duckdb"), Writer("trino"), Writer("spark")
    writers = [*appenders, duck, trino, spark]
    try:
        with serving(home) as served, ThreadPoolExecutor() as pool:
            client = catalog(served)
            client.create_namespace("race")
            client.create_table("race.counts", ROWS, properties=PROPERTIES)
            relay = CuttingRelay(served.url, cut_every)
            cut = replace(served, url=relay.url)
            end = time.monotonic() + 60 * minutes
            killing = pool.submit(kill, home, kill_every, over)
            running = [pool.submit(append, cut, writer, end) for writer in appenders]
            running += [
                pool.submit(insert, cut, duck, end),
                pool.submit(insert_by_trino, cut, trino, end, home.root / "trino"),
                pool.submit(merge, home, spark, 60 * minutes),
            ]
            while any(not one.done() for one in running):
                progress(", ".join(f"{writer.name} {writer.written}" for writer in writers))
                time.sleep(20)
            over.set()
            for one in running:
                one.result()
            relay.close()
            found = Counter(_rows(client.load_table("race.counts")))
            snapshots = len(client.load_table("race.counts").snapshots())
            client.purge_table("race.counts")
            client.drop_namespace("race")
    finally:
        over.set()
        list(installation.down())
    expected = {(writer.name, number) for writer in writers for number in range(writer.written)}
    broken = [f"{row} is there {count} times" for row, count in found.items() if count != 1 or row not in expected]
    broken += [f"{row} is lost" for row in expected - found.keys()]
    result = {
        "rows": sum(found.values()),
        "snapshots": snapshots,
        "kills": killing.result(),
        "cuts": relay.cuts,
        "writers": {writer.name: {"rows": writer.written, **writer.failures} for writer in writers},
        "broken": broken,
    }
    return report_result(home, "iceberg_race", result)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, metavar="HOME")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kill-every", type=float, default=30, metavar="SECONDS")
    parser.add_argument("--cut-every", type=int, default=20, metavar="COMMITS")
    given = parser.parse_args()
    return race(Home(given.home.absolute()), given.minutes, given.kill_every, given.cut_every)


if __name__ == "__main__":
    raise SystemExit(main())
