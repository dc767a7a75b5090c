"""Raw samples, recorded once: a run is a directory of two files, from which every report is made.

`run.json` describes the workload, its environment and its settings; it is written once, before the first sample, and
never changed. `samples.jsonl` grows by appends, one JSON object a line, each with its `kind` and `at_ms` (UTC, epoch
milliseconds). It can be read during the run: readers ignore a last line that a killed process left half-written, and
the next append truncates it. They leave out and count damaged lines, which a failing disk may cause; a line ends with
the `crc32` of the rest, which records of earlier releases lack. A run without an `end` sample was interrupted, or is
still running: then a process holds its `measuring.lock`. An interrupted repetition is done again as another `attempt`;
readers skip the samples of earlier attempts.

The repetitions record how they were measured: `begin` has the position in the `order` of the experiment's turns and the
machine's load average `load_1m`; `usage` has `other_core_seconds` and whether other programs `disturbed` it, and the
`store_requests` by kind while applications ran; `resumed` has `commit`, `machine` and `versions`.

The local directory is the original; `publish` copies it to the lake, where it outlives the machine.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.errors import NotFound, StateError
from penstock.home import Home, write_json
from penstock.lake.model import ObjectStore

Sample = Mapping[str, Any]

UNFINISHED = "unfinished"
LAKE_PREFIX = "penstock/lab"
FORMAT = 1
_SAMPLES = "samples.jsonl"
_CHECKSUM = re.compile(rb', "crc32": "([0-9a-f]{8})"}\s*$')
_TAIL_BYTES = 1 << 14
"""Nothing but the short samples of a resumption may follow the end of a run."""
_REPETITION = re.compile(rb'"kind":\s*"repetition"')


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
        return _outcome(self.samples)


def _outcome(samples: Sequence[Sample]) -> str:
    return next((str(one["outcome"]) for one in reversed(samples) if one["kind"] == "end"), UNFINISHED)


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
        sample = {"kind": kind, "at_ms": int(time.time() * 1000), **values}
        line = json.dumps(sample, ensure_ascii=False).encode()
        with self._turn, (self.directory / _SAMPLES).open("a+b") as file:
            _cut_torn_line(file.fileno())
            file.write(b'%s, "crc32": "%08x"}\n' % (line[:-1], zlib.crc32(line)))
            file.flush()
            os.fsync(file.fileno())

    def run(self) -> Run:
        return load(self.directory)

    def publish(self, store: ObjectStore) -> str:
        """Copy the samples recorded so far to the lake; returns the key prefix there. May be called again."""
        prefix = f"{LAKE_PREFIX}/{self.description.id}"
        for name in ("run.json", _SAMPLES):
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
    """Read a run. Raises `NotFound` where there is none, `StateError` where its description is damaged."""
    try:
        content = (directory / _SAMPLES).read_bytes()
    except FileNotFoundError:
        content = b""
    return _run(_described(directory), content)


def load_description(home: Home, run_id: str) -> Description:
    """Read a run's description without its samples. Raises the same errors as `load`."""
    return _described(_local_directory(home, run_id))


def descriptions(home: Home, *, newest_first: bool = False) -> Iterator[Description]:
    """Yield the descriptions of all runs on this machine, by default oldest first, without the damaged ones."""
    for run_id in sorted(run_ids(home), reverse=newest_first):
        with suppress(StateError, NotFound):  # removed meanwhile
            yield load_description(home, run_id)


def outcome(home: Home, run_id: str) -> str:
    """Return a run's outcome from the end of its samples, without reading the others."""
    try:
        with (_local_directory(home, run_id) / _SAMPLES).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return _outcome(_parse(file.read())[0])
    except FileNotFoundError:
        return UNFINISHED


def _described(directory: Path) -> Description:
    try:
        content = (directory / "run.json").read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{directory} holds no run", fix="list the runs: penstock lab runs") from None
    return _parse_description(content, str(directory / "run.json"))


def _parse_description(content: bytes, source: str) -> Description:
    try:
        return Description.from_json(json.loads(content))
    except (ValueError, TypeError, AttributeError) as error:
        raise StateError(
            f"{source} is damaged", why=str(error), fix="restore it from a copy, or measure again"
        ) from error


def run_ids(home: Home) -> list[str]:
    """Return the ids of all runs recorded on this machine, oldest first."""
    directory = home.root / "lab"
    return sorted(path.parent.name for path in directory.glob("*/run.json"))


def find(home: Home, name: str, store: ObjectStore | None = None) -> Run:
    """Find a run by its id, a unique part of it, `last`, or the path of its directory; if not here, in the lake."""
    if (directory := _directory(home, name)) is not None:
        return load(directory)
    if store is not None:
        return _from_lake(store, name)
    raise NotFound(f"There is no run {name}", fix="list the runs: penstock lab runs")


def find_description(home: Home, name: str) -> Description:
    """Find the description of a run on this machine by the same names as `find`."""
    if (directory := _directory(home, name)) is not None:
        return _described(directory)
    raise NotFound(f"There is no run {name}", fix="list the runs: penstock lab runs")


def _directory(home: Home, name: str) -> Path | None:
    if Path(name).is_dir() and (Path(name) / "run.json").exists():
        return Path(name)
    known = run_ids(home)
    matching = (
        known[-1:] if name == "last" else [run for run in known if run == name] or [r for r in known if name in r]
    )
    if len(matching) > 1:
        raise NotFound(
            f"{name} fits {len(matching)} runs", why=", ".join(matching[-5:]), fix="give a longer part of the id"
        )
    return _local_directory(home, matching[0]) if matching else None


def _from_lake(store: ObjectStore, run_id: str) -> Run:
    prefix = f"{LAKE_PREFIX}/{run_id}"
    try:
        described = store.get(f"{prefix}/run.json")
    except NotFound:
        raise NotFound(
            f"There is no run {run_id}, neither here nor in the lake", fix="list the runs: penstock lab runs"
        ) from None
    try:
        content = store.get(f"{prefix}/{_SAMPLES}")
    except NotFound:
        content = b""
    return _run(_parse_description(described, f"{prefix}/run.json"), content)


def _run(described: Description, content: bytes) -> Run:
    samples, damaged = _parse(content)
    return Run(described, _latest(samples), damaged)


def _latest(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Remove the samples of attempts that a later attempt at the same repetition superseded."""
    latest: dict[int, int] = {}
    for sample in samples:
        if "attempt" in sample:
            repetition = sample["repetition"]
            latest[repetition] = max(sample["attempt"], latest.get(repetition, 0))
    return tuple(
        sample for sample in samples if "attempt" not in sample or sample["attempt"] == latest[sample["repetition"]]
    )


def _local_directory(home: Home, run_id: str) -> Path:
    return home.root / "lab" / run_id


def _parse(content: bytes) -> tuple[list[Sample], int]:
    """Return the samples, and the number of damaged lines. Text after the last newline is incomplete, not damaged."""
    lines = content.split(b"\n")[:-1]
    found = [sample for line in lines if (sample := _parse_line(line)) is not None]
    return found, len(lines) - len(found)


def _parse_line(line: bytes) -> Sample | None:
    """Return the sample of a line, without its checksum; None where the line is damaged."""
    if sealed := _CHECKSUM.search(line):
        line = line[: sealed.start()] + b"}"
        if zlib.crc32(line) != int(sealed[1], 16):
            return None
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        return None
    numbered = "repetition" in found or "attempt" not in found
    whole = all(isinstance(found.get(name, 1), int) for name in ("repetition", "attempt"))
    readable = numbered and whole and "crc32" not in found
    return found if readable and (found["kind"] != "end" or "outcome" in found) else None


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


DAMAGED = "damaged"
"""The outcome, in the list, of a run whose description cannot be read."""


def list_runs(home: Home) -> list[dict[str, Any]]:
    """Return a row for each run, oldest first."""
    return [_row(home, run_id) for run_id in run_ids(home)]


def _row(home: Home, run_id: str) -> dict[str, Any]:
    """Return a run's row. A run without an end is `running` while a process measures it, else `interrupted`."""
    # A run that ends in between is then neither: the lock is released after the end is recorded.
    unfinished = "running" if in_progress(home, run_id) else "interrupted"
    try:
        described, found = load_description(home, run_id), outcome(home, run_id)
    except StateError:
        described, found = _unknown(_local_directory(home, run_id)), DAMAGED
    plan, ended = described.plan, found != UNFINISHED
    planned = plan["repetitions"] + plan["warmup"] if plan else None
    return {
        "run": run_id,
        "workload": described.workload,
        "arm": described.arm,
        "scale": described.scale,
        "created_at": described.created_at,
        "experiment": described.experiment,
        "batch": described.batch,
        "ended": ended,
        "outcome": found if ended else unfinished,
        "repetitions": planned,
        "repetitions_done": planned or 0 if ended else _repetitions_done(_local_directory(home, run_id) / _SAMPLES),
    }


def _unknown(directory: Path) -> Description:
    """Return the description of a run whose own is damaged. `run.json` is as old as the run."""
    created = datetime.fromtimestamp((directory / "run.json").stat().st_mtime, timezone.utc)
    return Description(directory.name, "unknown", "", f"{created:%Y-%m-%d %H:%M:%S} UTC", "")


def _repetitions_done(samples: Path) -> int:
    """Count the repetitions that have ended, parsing only their last samples."""
    if not samples.exists():
        return 0
    with samples.open("rb") as lines:
        ended = [_parse_line(line) for line in lines if _REPETITION.search(line)]
    return len({sample.get("repetition") for sample in ended if sample and sample["kind"] == "repetition"})
