"""The session in which a suite measures one run: its applications, the lake, and the records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import SPARK
from penstock.errors import NotFound
from penstock.lab.environment import Environment, slug
from penstock.lab.launchers import Job, JobResult, Launcher
from penstock.lab.metering import RequestCounter
from penstock.lab.progress import ProgressListener
from penstock.lab.records import LAKE_PREFIX, Recorder
from penstock.lake import stores
from penstock.lake.model import ObjectStore
from penstock.model import CORES_PER_CORE, ClusterSize


class StoppedByFailure(Exception):
    """An application was ended because concurrent work failed; that failure is the one to report."""


@dataclass(frozen=True)
class Session:
    """One run, and one repetition within it: 0 and below are warm-up, None is the preparation before all of them."""

    bench: Environment
    recorder: Recorder
    launcher: Launcher
    listener: ProgressListener
    size: ClusterSize
    profile: str
    settings: Mapping[str, str]
    """The suite's settings and the user's, for every application of the run."""
    repetition: int | None = None
    attempt: int = 1
    """The number of the attempt, from 1; above 1 an interrupted repetition is done again."""
    tags: Mapping[str, Any] = field(default_factory=dict)
    """Values recorded with every sample: the user of several, and whether others were at work."""
    part: str = ""
    """Distinguishes the keys, roles and measures of the same work done more than once in a repetition."""
    cores_per_core: float = CORES_PER_CORE
    """The number of times that a core may be promised; above the default for concurrent clusters."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when concurrent work has failed: the applications end, and `application` raises `StoppedByFailure`."""

    requests: RequestCounter = field(default_factory=RequestCounter)
    """Counts the requests of the repetition's applications at the store."""

    @property
    def store(self) -> ObjectStore:
        return self.bench.store

    @property
    def warmup(self) -> bool:
        return self.repetition is not None and self.repetition < 1

    def in_repetition(self, repetition: int, attempt: int) -> Session:
        counter = RequestCounter(partial(stores.requests, self.bench.home, self.bench.lake))
        return replace(self, repetition=repetition, attempt=attempt, requests=counter)

    def tagged(self, **tags: Any) -> Session:
        """Return the session with more values for every sample."""
        return replace(self, tags={**self.tags, **tags})

    def within(self, part: str) -> Session:
        """Return the session for one part of a repetition. See `part`."""
        return replace(self, part=part)

    def key(self, name: str) -> str:
        """Return a key in the lake that only this attempt at this part of the repetition uses."""
        return "/".join(filter(None, (self._prefix(self.attempt), slug(self.part), name)))

    def remove_earlier_attempts(self) -> None:
        """Delete the objects that killed attempts at this repetition left in the lake."""
        for attempt in range(1, self.attempt):
            self.remove(self._prefix(attempt))

    def uri(self, key: str) -> str:
        """The address of a key for Spark."""
        return self.bench.uri(key)

    def json_lines(self, key: str) -> list[dict[str, Any]]:
        return self.bench.json_lines(key)

    def remove(self, prefix: str) -> None:
        """Delete every object below `prefix`, a directory."""
        self.store.delete(*(found.key for found in self.store.list(f"{prefix.rstrip('/')}/")))

    def _prefix(self, attempt: int) -> str:
        part = "preparation" if self.repetition is None else f"repetition-{self.repetition}"
        again = f".{attempt}" if attempt > 1 else ""
        return f"{LAKE_PREFIX}/{self.recorder.description.id}/{part}{again}"

    def record(self, kind: str, **values: Any) -> None:
        """Record one raw sample, on disk on return. May be called by several threads at once."""
        at = {} if self.repetition is None else {"repetition": self.repetition, "attempt": self.attempt}
        warmup = {"warmup": True} if self.warmup else {}
        if self.part:
            values = {key: f"{v}, {self.part}" if key in ("name", "role") else v for key, v in values.items()}
        self.recorder.add(kind, **{**at, **warmup, **self.tags, **values})

    def measure(self, name: str, *, elapsed_ms: float, **more: Any) -> None:
        """Record a timed piece of successful work. `bytes` and `rows` are its amounts of data."""
        self.record("measure", name=name, elapsed_ms=elapsed_ms, **more)

    def check(self, name: str, right: bool, note: str = "") -> None:
        """Record a validation. A single failed one makes the run's outcome `wrong`."""
        self.record("check", name=name, right=right, note=note)

    def replay(self, key: str) -> list[dict[str, Any]]:
        """Record the samples that an application wrote to the lake, each of the kind it names; return them."""
        samples = self.json_lines(key)
        for sample in samples:
            self.record(**sample)
        return samples

    def report_of(self, ran: JobResult, key: str) -> list[dict[str, Any]]:
        """Return an application's report from the lake. Raises the application's failure where it wrote none."""
        try:
            return self.json_lines(key)
        except NotFound:
            ran.explain()
            raise

    def judged(self, ran: JobResult, key: str, **more: Any) -> None:
        """Record the report of an application that may fail, with `more` values.

        Raises the application's failure unless the report has a failed check, which explains more than an exit code.
        """
        samples = self.report_of(ran, key)
        for sample in samples:
            self.record(**sample, **more)
        if all(sample.get("right", True) for sample in samples):
            ran.explain()

    def application(
        self,
        role: str,
        main_class: str | None,
        arguments: Sequence[str],
        *,
        name: str,
        engine: QueryEngine = SPARK,
        size: ClusterSize | None = None,
        profile: str | None = None,
        settings: Mapping[str, str] | None = None,
        doing: Callable[[str], None] | None = None,
        must_succeed: bool = True,
        **more: Any,
    ) -> JobResult:
        """Run one of the lab's applications to its end on a dedicated cluster and record its cost.

        Without a `main_class` it runs statements in the `engine`, of the size that this takes from the cluster's.
        `more` is recorded with it (its user, say). Raises `ClusterError` with the end of its output where it failed and
        `must_succeed`. May be called by several threads at once.
        """
        job = Job(
            run=self.recorder.description.id,
            role=role,
            name=name,
            main_class=main_class,
            arguments=arguments,
            size=engine.usual_size(size or self.size),
            profile=profile or self.profile,
            settings={**self.bench.gateway_settings(), **self.settings, **(settings or {})},
            cores_per_core=self.cores_per_core,
            engine=engine,
        )
        report = doing or self.listener.now

        def unless_stopping(text: str) -> None:
            if self.stopping.is_set():
                raise StoppedByFailure
            report(text)

        with self.requests.counting():
            ran = self.launcher.run(job, unless_stopping)
        self.record("application", **ran.sample, **more)
        if must_succeed:
            ran.explain()
        return ran
