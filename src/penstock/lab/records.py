"""Raw samples, recorded once: a run is a directory of two files, from which every report is made.

`run.json` describes the workload, its environment and its settings; it is written once, before the first sample, and
never changed. `samples.jsonl` grows by appends, one JSON object a line, each with its `kind` and `at_ms` (UTC, epoch
milliseconds). It can be read during the run: readers ignore a last line that a killed process left half-written, and
the next append truncates it. A run without an `end` sample was interrupted, or is still running: then a process holds
its `measuring.lock`. An interrupted repetition is done again as another `attempt`; readers skip the samples of earlier
attempts.

The local directory is the original; `publish` copies it to the lake, where it outlives the machine.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.errors import NotFound, StateError
from penstock.home import Home, write_json
from penstock.lake.model import ObjectStore

Sample = Mapping[str, Any]

LAKE_PREFIX = "penstock/lab"
FORMAT = 1


@dataclass(frozen=True)
class Description:
    """The description of a run. Times are UTC; it contains no secrets.

    `arm` names one side of a comparison (`penstock`, `plain`); runs measured together share an `experiment`.
    """

    id: str
    workload: str
    arm: str
    created_at: str
    command: str
    scale: float | None = None
    experiment: str | None = None
    batch: str | None = None
    """Shared by the runs of all experiments that one command began."""
    place: int = 0
    """The position among the runs begun together, from 0, in which they take turns."""
    lake: Mapping[str, Any] = field(default_factory=dict)
    profile: str | None = None
    size: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The suite's options, enough to restore it: queries, iterations, object size."""
    launcher: str = "penstock"
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The planned repetitions and cache policy, which resuming an interrupted run needs."""
    commit: str | None = None
    backend: str | None = None
    """The backend of its applications, `local` or `kubernetes`; None in older records. `machine` is the lab's own."""
    format: int = FORMAT

    @property
    def on_this_machine(self) -> bool:
        """Whether applications ran on the machine that is described; nodes of Kubernetes are not."""
        return self.backend != "kubernetes"

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Description:
        """The inverse of `dataclasses.asdict`; fields of a newer release are ignored."""
        known = Description.__dataclass_fields__
        return Description(**{name: item for name, item in value.items() if name in known})


@dataclass(frozen=True)
class Run:
    """A run as read back; analysis and reports use nothing else."""

    description: Description
    samples: tuple[Sample, ...]
    damaged_lines: int = 0
    """The number of lines that could not be read, whose samples are missing."""

    def of_kind(self, kind: str) -> list[Sample]:
        return [sample for sample in self.samples if sample["kind"] == kind]

    @property
    def outcome(self) -> str:
        """`ok`, `failed`, `wrong` (a result was incorrect), or `unfinished`."""
        ends = self.of_kind("end")
        return str(ends[-1]["outcome"]) if ends else "unfinished"


class Recorder:
    """Appends samples to one run. Every sample is on disk when `add` returns, whichever thread called it."""

    def __init__(self, directory: Path, description: Description) -> None:
        self.directory = directory
        self.description = description
        self._turn = threading.Lock()

    @staticmethod
    def begin(home: Home, description: Description) -> Recorder:
        """Start a new run. Raises `StateError` if one of that id exists."""
        home.create()
        directory = home.root / "lab" / description.id
        directory.parent.mkdir(exist_ok=True, mode=0o700)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            raise StateError(
                f"A run named {description.id} is recorded already",
                why="raw samples are never overwritten",
                fix=f"choose another name, or see its report: penstock lab report {description.id}",
            ) from None
        write_json(directory / "run.json", asdict(description))
        return Recorder(directory, description)

    @staticmethod
    def resume(home: Home, run_id: str) -> Recorder:
        """Resume a run that was interrupted."""
        return Recorder(_local_directory(home, run_id), load_description(home, run_id))

    @contextmanager
    def claimed(self, home: Home) -> Iterator[None]:
        """Claim the run for this process. Raises `StateError` where another has it; killed processes lose theirs."""
        busy = f"{self.description.id} is being measured by another process"
        # With a wait, since `in_progress` holds the lock for a moment.
        with home.lock(_claim(self.description.id), busy=busy, wait_seconds=1.0, fix="wait for it to end"):
            yield

    def add(self, kind: str, **values: Any) -> None:
        line = json.dumps({"kind": kind, "at_ms": int(time.time() * 1000), **values}, ensure_ascii=False) + "\n"
        with self._turn, (self.directory / "samples.jsonl").open("a+b") as file:
            _cut_torn_line(file.fileno())
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def run(self) -> Run:
        return load(self.directory)

    def publish(self, store: ObjectStore) -> str:
        """Copy the samples recorded so far to the lake; returns the key prefix there. May be called again."""
        prefix = f"{LAKE_PREFIX}/{self.description.id}"
        for name in ("run.json", "samples.jsonl"):
            if (self.directory / name).exists():
                store.put(f"{prefix}/{name}", (self.directory / name).read_bytes())
        return prefix


def in_progress(home: Home, run_id: str) -> bool:
    """Return whether a process of this machine is measuring the run. If none is, an unfinished run was interrupted."""
    return home.locked(_claim(run_id))


def _claim(run_id: str) -> str:
    return f"lab/{run_id}/measuring"


def new_run_id(workload: str, arm: str, *, now: datetime | None = None) -> str:
    """Return a readable id that sorts by time and is unique on this machine: `20261121-101500-tpcds-penstock-4f2a`."""
    moment = now or datetime.now(timezone.utc)
    return f"{moment:%Y%m%d-%H%M%S}-{workload}-{arm}-{os.urandom(2).hex()}"


def load(directory: Path) -> Run:
    """Read a run. Raises `NotFound` where there is none, `StateError` where a line of it is damaged."""
    return Run(_described(directory), _latest(_samples(directory / "samples.jsonl")))


def load_description(home: Home, run_id: str) -> Description:
    """Read a run's description without its samples. Raises the same errors as `load`."""
    return _described(_local_directory(home, run_id))


def _described(directory: Path) -> Description:
    try:
        return Description.from_json(json.loads((directory / "run.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFound(f"{directory} holds no run", fix="list the runs: penstock lab runs") from None
    except ValueError as error:
        raise StateError(f"{directory / 'run.json'} is damaged", why=str(error), fix="measure again") from error


def run_ids(home: Home) -> list[str]:
    """Return the ids of all runs recorded on this machine, oldest first."""
    directory = home.root / "lab"
    return sorted(path.parent.name for path in directory.glob("*/run.json"))


def find(home: Home, name: str, store: ObjectStore | None = None) -> Run:
    """Find a run by its id, a unique part of it, `last`, or the path of its directory; if not here, in the lake."""
    if Path(name).is_dir() and (Path(name) / "run.json").exists():
        return load(Path(name))
    known = run_ids(home)
    matching = (
        known[-1:] if name == "last" else [run for run in known if run == name] or [r for r in known if name in r]
    )
    if len(matching) == 1:
        return load(_local_directory(home, matching[0]))
    if len(matching) > 1:
        raise NotFound(
            f"{name} fits {len(matching)} runs", why=", ".join(matching[-5:]), fix="give a longer part of the id"
        )
    if store is not None:
        return _from_lake(store, name)
    raise NotFound(f"There is no run {name}", fix="list the runs: penstock lab runs")


def _from_lake(store: ObjectStore, run_id: str) -> Run:
    try:
        described = json.loads(store.get(f"{LAKE_PREFIX}/{run_id}/run.json"))
    except NotFound:
        raise NotFound(
            f"There is no run {run_id}, neither here nor in the lake", fix="list the runs: penstock lab runs"
        ) from None
    try:
        content = store.get(f"{LAKE_PREFIX}/{run_id}/samples.jsonl")
    except NotFound:
        content = b""
    return Run(Description.from_json(described), _latest(_parse(content, f"{run_id}/samples.jsonl")))


def _latest(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Remove the samples of attempts that a later attempt at the same repetition superseded."""
    found = list(samples)
    latest: dict[int, int] = {}
    for sample in found:
        if "attempt" in sample:
            repetition = sample["repetition"]
            latest[repetition] = max(sample["attempt"], latest.get(repetition, 0))
    return tuple(
        sample for sample in found if "attempt" not in sample or sample["attempt"] == latest[sample["repetition"]]
    )


def _local_directory(home: Home, run_id: str) -> Path:
    return home.root / "lab" / run_id


def _samples(path: Path) -> Iterator[Sample]:
    if path.exists():
        yield from _parse(path.read_bytes(), str(path))


def _parse(content: bytes, source: str) -> Iterator[Sample]:
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):  # text after the last newline is incomplete
        try:
            sample = json.loads(line)
            sample["kind"]
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"Line {number} of {source} is not a sample", why=str(error), fix="restore the file, or measure again"
            ) from error
        yield sample


def _cut_torn_line(descriptor: int) -> None:
    """Truncate a half-written last line, the sample of a process that was killed while writing it."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)


def list_runs(home: Home) -> list[dict[str, Any]]:
    """Return a row for each run, oldest first."""
    return [_row(home, load(home.root / "lab" / run_id)) for run_id in run_ids(home)]


def _row(home: Home, run: Run) -> dict[str, Any]:
    """Return a run's row. A run without an end is `running` while a process measures it, else `interrupted`."""
    described, plan = run.description, run.description.plan
    ended = run.outcome != "unfinished"
    unfinished = "running" if in_progress(home, described.id) else "interrupted"
    return {
        "run": described.id,
        "workload": described.workload,
        "arm": described.arm,
        "scale": described.scale,
        "created_at": described.created_at,
        "experiment": described.experiment,
        "batch": described.batch,
        "ended": ended,
        "outcome": run.outcome if ended else unfinished,
        "repetitions": plan["repetitions"] + plan["warmup"] if plan else None,
        "repetitions_done": len(run.of_kind("repetition")),
    }
