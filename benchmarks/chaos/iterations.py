"""One round: applications at work under faults, then a sweep of the lake and the invariants."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.chaos import invariants, machine_view, operations, request_faults, schedule, supervisor_process
from benchmarks.chaos.environment import LAKE, Environment
from benchmarks.chaos.faults import Plan
from benchmarks.chaos.history import CommittedRows, JobReport, Outcome
from benchmarks.chaos.invariants import FinishedApplication
from benchmarks.chaos.journal import read
from benchmarks.chaos.lake_view import LakeView
from benchmarks.chaos.operations import APPEND, PARTITIONS, QUERY, SEED_JOB, WRITES, Job, Work
from benchmarks.chaos.process_faults import FaultInjector, thaw
from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.engine.repository.applications import CONNECTION_LOST
from penstock.engine.supervision.supervisor import is_released
from penstock.lake.sweep import sweep
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize
from penstock.processes import ProcessId

BASE_PREFIX = "chaos"

_SIZE = ProcessSize(1, 512 << 20)
_SEED_ROWS = 30
_TIME_LIMIT_SECONDS = 420.0
_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.5
_FAREWELL_SECONDS = 60.0
_FAULTS_WITHIN = (0.0, 30.0)
"""The interval in which process faults come, in seconds from the start of the first Spark context."""


@dataclass(frozen=True)
class Result:
    """Result of a round: `outcomes` of jobs by kind and end, `broken` by proof, `faults` as recorded."""

    seed: str
    jobs: int
    outcomes: Mapping[str, int]
    applications: Mapping[str, int]
    requests: Mapping[str, int]
    faults: Sequence[Mapping[str, Any]]
    swept: Mapping[str, int]
    broken: Mapping[str, Sequence[str]]
    seconds: float
    details: Sequence[Mapping[str, Any]]


def make_base(environment: Environment, scratch: Path) -> None:
    """Write the table of known rows, once for a run, with Spark: its files have checksums, DuckDB's have none."""
    (ended,) = _Iteration(environment, "", scratch, BASE_PREFIX, [operations.base_work()]).run(process_faults=0)
    assert [report.outcome for report in ended.journal.reports] == [Outcome.DONE], _detail(ended)


def run_with_faults(environment: Environment, seed: str, scratch: Path, *, jobs: int, process_faults: int) -> Result:
    """Play a round under faults. `scratch` is an empty directory of its own; the applications' journals stay there."""
    works = operations.works(seed, jobs=jobs)
    return _run_and_check(
        environment, seed, scratch, works, plan=request_faults.usual(seed), process_faults=process_faults
    )


def run_without_faults(environment: Environment, seed: str, scratch: Path) -> Result:
    """Play a round without faults, after those with faults."""
    return _run_and_check(environment, seed, scratch, [operations.asking(seed)], plan=None, process_faults=0)


def _run_and_check(
    environment: Environment, seed: str, scratch: Path, works: Sequence[Work], *, plan: Plan | None, process_faults: int
) -> Result:
    begun = time.monotonic()
    known = len(_lines(environment.record))
    before = _requests(environment)
    prefix = f"chaos/{scratch.name}"
    view = LakeView(environment.client(), environment.store.bucket, prefix, scratch)
    tables = operations.tables(works)
    seeds = {table: _seeded(view, table) for table in tables}
    for gateway in environment.gateways:
        gateway.follow(plan or Plan(""))
    ended = _Iteration(environment, seed, scratch, prefix, works).run(process_faults)
    requests = _requests(environment) - before
    now = datetime.now(timezone.utc)
    swept = sweep(environment.store, environment.credentials, f"{prefix}/", before=now, dry_run=False)
    expected = {job.id: view.answer(job.query) for work in works for job in work.jobs() if job.kind == QUERY}
    broken = {
        "every committed row once, none of an uncommitted job": _written(view, ended, seeds),
        "every answer right": invariants.reads(ended, expected),
        "nothing left in the lake": invariants.nothing_left(view.leftovers(tables)),
        "nothing left on the machine": machine_view.left_of(environment.home, [one.application.id for one in ended]),
        "every state true": invariants.states(ended),
        "every error understandable": invariants.errors(ended),
        "without faults nothing fails": invariants.undisturbed(ended) if plan is None else [],
    }
    return Result(
        seed=seed,
        jobs=sum(len(one.journal.reports) for one in ended),
        outcomes=_outcomes(ended),
        applications=Counter(one.application.state.value for one in ended),
        requests=requests,
        faults=_lines(environment.record)[known:],
        swept=Counter(f"{one.kind} {one.action}" for one in swept.found),
        broken=broken,
        seconds=round(time.monotonic() - begun, 1),
        details=[_detail(one) for one in ended],
    )


class _Iteration:
    """The running applications of a round."""

    def __init__(self, environment: Environment, seed: str, scratch: Path, prefix: str, works: Sequence[Work]) -> None:
        self._environment = environment
        self._seed = seed
        self._scratch = scratch
        self._prefix = prefix
        self._works = works
        self._engine = Engine(environment.home, supervisor_process.SpreadBackend(environment.home))
        self._supervisors: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, process_faults: int) -> list[FinishedApplication]:
        known = len(_lines(self._environment.record))
        submitted = [(work, self._submit(work).id) for work in self._works]
        planned = schedule.process_faults(
            self._seed,
            count=process_faults,
            within=_FAULTS_WITHIN,
            store=self._environment.store.kind,
            small_disk=bool(self._environment.disk),
        )
        with FaultInjector(
            self._environment.home,
            planned,
            gateways=self._environment.gateways,
            supervisors=self._alive,
            begun=lambda: any(self._journal(work).exists() for work in self._works),
            record=self._environment.record,
            disk=self._environment.disk,
        ) as injector:
            self._await([name for _, name in submitted])
        if injector.failure is not None:
            raise injector.failure
        self._environment.restore()
        for supervisor in self._supervisors.values():
            supervisor.wait(timeout=_FAREWELL_SECONDS)
        victims = [line["victim"] for line in _lines(self._environment.record)[known:] if "victim" in line]
        faulted = {victim["application"] for victim in victims if victim["role"] != schedule.SUPERVISOR}
        return [
            FinishedApplication(work, self._engine.get(name), read(self._journal(work), work), name in faulted)
            for work, name in submitted
        ]

    def _submit(self, work: Work) -> Application:
        lanes = self._scratch / f"{work.name}.json"
        lanes.write_text(json.dumps([[job.to_json() for job in lane] for lane in work.lanes]), encoding="utf-8")
        lake = self._environment.store.root
        places = (f"{lake}/{self._prefix}", f"{lake}/{BASE_PREFIX}/{operations.BASE}")
        application = self._engine.submit(
            ApplicationSpec(
                application=str(Path(__file__).with_name("application.py")),
                size=ClusterSize(_SIZE, _SIZE, work.executors),
                name=f"chaos-{work.name}",
                arguments=(str(lanes), str(self._journal(work)), *places),
                lake=LAKE,
                settings=work.settings,
                time_limit_seconds=_TIME_LIMIT_SECONDS,
            )
        )
        log = self._scratch / "supervisors.log"
        self._supervisors[application.id] = supervisor_process.start(self._environment.home, application.id, log)
        return application

    def _journal(self, work: Work) -> Path:
        return self._scratch / f"{work.name}.journal"

    def _alive(self) -> list[tuple[str, ProcessId]]:
        """Supervisors of these applications: those of this round, and those that the engine has started since."""
        ours = [(name, ProcessId.of(process.pid)) for name, process in self._supervisors.items()]
        alive = [(name, process) for name, process in ours if process is not None]
        return [*alive, *machine_view.supervisors(self._environment.home)]

    def _await(self, applications: Sequence[str]) -> None:
        """Wait until all have ended and nothing of their clusters is left.

        An application whose supervisor was killed gets another one, as under the service.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        left = list(applications)
        while left and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            # `poll` reaps killed supervisors. While none has ended, an application without a supervisor waits for the
            # slow start of its own, and the engine's supervisor would put its executors on one host.
            ended = [supervisor for supervisor in self._supervisors.values() if supervisor.poll() is not None]
            try:
                left = [one for one in left if not is_released(self._engine.get(one))]
                if ended:
                    self._engine.reconcile()
            except CONNECTION_LOST:
                Database(self._environment.home).up()
        thaw(self._environment.home)
        if left:
            raise TimeoutError(f"{', '.join(left)} did not end within {_PATIENCE_SECONDS:.0f} s")


def _seeded(view: LakeView, table: str) -> list[JobReport]:
    """Fill a shared table before the round, and return its contents as the report of a job.

    The table has to exist: a job that replaces a path that is being created adds to it (docs/guide/filesystem.md).
    """
    if table not in operations.SHARED:
        return []
    view.make_table(table, _SEED_ROWS)
    return [JobReport(Job(SEED_JOB, APPEND, table, _SEED_ROWS, len(PARTITIONS), PARTITIONS), Outcome.DONE, 0.0, 0.0)]


def _written(
    view: LakeView, ended: Sequence[FinishedApplication], seeds: Mapping[str, Sequence[JobReport]]
) -> list[str]:
    found = {table: _rows(view, table) for table in seeds}
    unreadable = [f"{table} is unreadable: {rows}" for table, rows in found.items() if isinstance(rows, str)]
    readable = {table: rows for table, rows in found.items() if not isinstance(rows, str)}
    return unreadable + invariants.writes(ended, {table: seeds[table] for table in readable}, readable)


def _rows(view: LakeView, table: str) -> list[CommittedRows] | str:
    try:
        return view.rows(table)
    except duckdb.Error as error:
        return str(error).splitlines()[0]


def _requests(environment: Environment) -> Counter[str]:
    return sum((gateway.requests() for gateway in environment.gateways), Counter())


def _lines(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text("utf-8").splitlines()] if record.exists() else []


def _outcomes(finished: Sequence[FinishedApplication]) -> Mapping[str, int]:
    reports = [report for one in finished for report in one.journal.reports]
    kind = {job: "write" if job in WRITES else "read" for job in {one.job.kind for one in reports}}
    return Counter(
        f"{kind[one.job.kind]}{' without enough memory' * one.job.starves} {one.outcome.value}" for one in reports
    )


def _detail(ended: FinishedApplication) -> dict[str, Any]:
    application = ended.application
    return {
        "work": ended.work.name,
        "application": application.id,
        "state": application.state.value,
        "reason": None if application.reason is None else vars(application.reason),
        "causes": {job: list(causes) for job, causes in ended.journal.causes.items()},
    }
