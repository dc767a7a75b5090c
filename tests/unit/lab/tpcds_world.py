"""A lake, an engine and fake TPC-DS applications, for the suites built on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab import launchers, runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.workloads import tpcds
from penstock.lab.workloads.base import Suite
from penstock.lake.model import Lake
from penstock.model import DUCKDB_INTERNAL, ApplicationSpec, ClusterSize, ProcessSize, State
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
LAKE = Lake("embedded", ("http://127.0.0.1:1",), "bucket", "environment")
TEXTS = {
    "q1": "SELECT count(*) AS n FROM item",
    "q2": "SELECT max(i_price) AS most FROM item",
    "q3": "SELECT min(i_price) AS least FROM item",
}


class World:
    """A lake, and applications that load one small table and answer the three queries."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.engine = PretendingEngine(
            lambda spec: self.run_script(spec) if spec.application == DUCKDB_INTERNAL else self.work(spec)
        )
        self.before: Callable[[str], State | None] = lambda _: State.FINISHED
        """Called with a power run's output; returns its final state, or None while it goes on."""
        self.answers: dict[str, list[list[Any]]] = {"q1": [[3]], "q2": [["2.50"]], "q3": [["0.50"]]}
        self.answers_to: dict[str, dict[str, list[list[Any]]]] = {}
        """Different answers of power runs, by the end of their output's address."""
        self.later_answers: dict[str, list[list[Any]]] = {}
        """Different answers of a script's last round."""
        self.failing: set[str] = set()
        self.leaves_samples = True
        self.dies_after: int | None = None
        """The number of queries after which a power run's driver dies."""
        self.tables: set[str] = set()
        self.home = Home(tmp_path / "home")
        self.scratch = tmp_path
        monkeypatch.setattr(Environment, "has_tables", lambda bench, database: database in self.tables)
        monkeypatch.setattr(tpcds, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        monkeypatch.setattr(tpcds, "query_texts", lambda jar, names: {name: TEXTS[name] for name in names})
        # On a busy machine a repetition of more than a second would be doubted.
        monkeypatch.setattr(runner, "disturbance_warning", lambda *_: None)
        monkeypatch.setattr(benches, "versions", lambda: {"spark": "4.1.2"})
        monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        self.engine.home = self.home
        self.bench = Environment(self.home, LAKE, self.store, self.engine)  # type: ignore[arg-type]

    def measure(self, suite: Suite, plan: MeasurementPlan = MeasurementPlan()) -> Run:  # noqa: B008 - a value
        (run,) = runner.measure(lambda _: self.bench, [Arm("Penstock", suite, SIZE)], plan, Silent())
        return run

    def work(self, spec: ApplicationSpec) -> State | None:
        arguments = dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True))
        main = str(spec.main_class).rpartition(".")[2]
        if main in (loads := {"LoadTables": self.load, "IcebergTables": self.make_iceberg}):
            return loads[main](arguments)
        if str(spec.main_class).endswith("Index"):
            return self.index(arguments)
        if str(spec.main_class).endswith("Enrich"):
            return self.enrich(arguments)
        if not self.leaves_samples:
            return State.FAILED
        prefix = arguments["--output"].removeprefix("s3a://bucket/")
        state = self.before(prefix)
        if state is not State.FINISHED:
            return state
        names = arguments["--queries"].split(",")
        samples = [
            {
                "query": name,
                "iteration": 1,
                "started_ms": 0,
                "elapsed_ms": 100,
                "rows": 1,
                **({"status": "failed", "error": "boom"} if name in self.failing else {"status": "ok"}),
            }
            for name in names
        ]
        otherwise = {k: rows for end, own in self.answers_to.items() if prefix.endswith(end) for k, rows in own.items()}
        answers = [
            {"query": name, "columns": ["x"], "types": ["bigint" if name == "q1" else "decimal(7,2)"], "rows": rows}
            for name, rows in {**self.answers, **otherwise}.items()
            if name in names and name not in self.failing
        ]
        self.store.put_lines(f"{prefix}/samples.jsonl", samples[: self.dies_after])
        self.store.put_lines(f"{prefix}/answers.jsonl", answers[: self.dies_after])
        return State.FAILED if self.failing or self.dies_after is not None else State.FINISHED

    def run_script(self, spec: ApplicationSpec) -> State:
        """Answer the statements of a script as the DuckDB driver does."""
        _, output, _, source, *_ = spec.arguments
        if not self.leaves_samples:
            return State.FAILED
        names = {text: name for name, text in TEXTS.items()}
        lines = []
        statements = Path(source).read_text(encoding="utf-8").splitlines()
        queries = 0
        for number, statement in enumerate(statements):
            line: dict[str, Any] = {"statement": statement, "started_ms": 0, "elapsed_ms": 100}
            name = names.get(statement.rstrip(";"))
            queries += name is not None
            if self.dies_after is not None and queries > self.dies_after:
                break
            if name in self.failing:
                line["error"] = "boom"
            else:
                kind = "bigint" if name == "q1" else "decimal(7,2)"
                is_last = statement not in statements[number + 1 :]
                answers = {**self.answers, **(self.later_answers if is_last else {})}
                line |= {"columns": [{"name": "x", "type": kind}], "rows": answers[name] if name else []}
            lines.append(line)
        self.store.put_lines(output.removeprefix("s3a://bucket/"), lines)
        return State.FAILED if self.failing or self.dies_after is not None else State.FINISHED

    def load(self, arguments: dict[str, str]) -> State:
        if arguments["--location"].startswith("file:"):
            return self.copy(arguments)
        prefix = arguments["--location"].removeprefix("s3a://bucket/")
        file = self.scratch / "item.parquet"
        duckdb.sql("SELECT * FROM (VALUES (1.5), (2.5), (0.5)) t(i_price)").write_parquet(str(file))
        self.store.put(f"{prefix}/item/part-0.parquet", file)
        table = {"table": "item", "rows": 3, "bytes": 100, "files": 1, "partitions": 0, "layout": "plain"}
        manifest = {
            "scale": float(arguments["--scale"]),
            "object_size": 32 << 20,
            "layout": arguments["--layout"],
            "tables": [table],
        }
        self.store.put(f"{prefix}/_manifest.json", json.dumps(manifest).encode())
        self.tables.add(arguments["--database"])
        return State.FINISHED

    def make_iceberg(self, arguments: dict[str, str]) -> State:
        manifest = json.loads(self.store.get(f"{arguments['--from'].removeprefix('s3a://bucket/')}/_manifest.json"))
        prefix = arguments["--location"].removeprefix("s3a://bucket/")
        self.store.put(f"{prefix}/_manifest.json", json.dumps({**manifest, "layout": "iceberg"}).encode())
        self.tables.add(arguments["--database"])
        return State.FINISHED

    def index(self, arguments: dict[str, str]) -> State:
        prefix = "tpcds/" + arguments["--database"].removeprefix("tpcds_")
        for table in arguments["--tables"].split(","):
            self.store.put(f"{prefix}/{table}/_skipindex/_manifest.json", b"{}")
            self.store.put(f"{prefix}/{table}/_skipindex/generation-1/part-0.parquet", b"PAR1")
        lines = [
            {"table": table, "files": 1, "build_ms": 10.0, "refresh_ms": 1.0}
            for table in arguments["--tables"].split(",")
        ]
        self.store.put_lines(arguments["--output"].removeprefix("s3a://bucket/"), lines)
        return State.FINISHED

    def copy(self, arguments: dict[str, str]) -> State:
        manifest = self.store.get(f"{arguments['--from'].removeprefix('s3a://bucket/')}/_manifest.json")
        place = Path(arguments["--location"].removeprefix("file:"))
        place.mkdir(parents=True, exist_ok=True)
        (place / "_manifest.json").write_bytes(manifest)
        self.tables.add(arguments["--database"])
        return State.FINISHED

    def enrich(self, arguments: dict[str, str]) -> State | None:
        prefix = arguments["--report"].removeprefix("s3a://bucket/")
        state = self.before(prefix)
        if state is State.FINISHED:
            measure = {"kind": "measure", "name": "enrich", "elapsed_ms": 1000, "rows": 10}
            self.store.put_lines(prefix, [measure, {"kind": "check", "name": "rows", "right": True, "note": ""}])
        return state

    def mains(self) -> list[str]:
        return [str(spec.main_class).rpartition(".")[2] for spec in self.engine.submitted]
