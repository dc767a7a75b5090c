"""What a suite works with while one run of it is measured: applications, the lake, and the records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import NotFound
from penstock.lab.bench import Bench, slug
from penstock.lab.launcher import Job, Launcher, Ran
from penstock.lab.progress import Listener
from penstock.lab.records import LAKE_PREFIX, Recorder
from penstock.lake.model import ObjectStore
from penstock.model import CORES_PER_CORE, ClusterSize


class Stopped(Exception):
    """An application was ended because what it belonged to failed elsewhere; that failure is the one to tell of."""


@dataclass(frozen=True)
class Session:
    """One run, and within it one repetition; 0 and below are warm-up, None is the preparation before all of them."""

    bench: Bench
    recorder: Recorder
    launcher: Launcher
    listener: Listener
    size: ClusterSize
    profile: str
    settings: Mapping[str, str]
    """The suite's meaning and the user's own, for every application of the run."""
    repetition: int | None = None
    attempt: int = 1
    """Counts from 1; above it where an interrupted repetition is done again."""
    tags: Mapping[str, Any] = field(default_factory=dict)
    """Recorded with every sample: which user of several it was of, and whether others were at work."""
    part: str = ""
    """Where a repetition does the same work more than once: tells its keys, roles and measures apart."""
    cores_per_core: float = CORES_PER_CORE
    """How often its applications may be promised a core; more than usual where they are to crowd each other."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when what its applications belong to has failed elsewhere: they end, and `application` raises `Stopped`."""

    @property
    def store(self) -> ObjectStore:
        return self.bench.store

    @property
    def warmup(self) -> bool:
        return self.repetition is not None and self.repetition < 1

    def in_repetition(self, repetition: int, attempt: int) -> Session:
        return replace(self, repetition=repetition, attempt=attempt)

    def tagged(self, **tags: Any) -> Session:
        """The same session, whose samples have these values too."""
        return replace(self, tags={**self.tags, **tags})

    def within(self, part: str) -> Session:
        """The same session for one part of a repetition. See `part`."""
        return replace(self, part=part)

    def key(self, name: str) -> str:
        """A place in the lake that belongs to this part of the repetition, and this attempt at it, alone."""
        return "/".join(filter(None, (self._place(self.attempt), slug(self.part), name)))

    def remove_earlier_attempts(self) -> None:
        """What a killed attempt at this repetition left in the lake, nobody will ever look at."""
        for attempt in range(1, self.attempt):
            self.remove(self._place(attempt))

    def uri(self, key: str) -> str:
        """The address of a key for Spark."""
        return f"{self.bench.lake.root}/{key}"

    def json_lines(self, key: str) -> list[dict[str, Any]]:
        return self.bench.json_lines(key)

    def remove(self, prefix: str) -> None:
        """Delete every object below `prefix`, a directory."""
        self.store.delete(*(found.key for found in self.store.list(f"{prefix.rstrip('/')}/")))

    def _place(self, attempt: int) -> str:
        part = "preparation" if self.repetition is None else f"repetition-{self.repetition}"
        again = f".{attempt}" if attempt > 1 else ""
        return f"{LAKE_PREFIX}/{self.recorder.description.id}/{part}{again}"

    def record(self, kind: str, **values: Any) -> None:
        """One raw sample, on disk when this returns. May be called by several threads at once."""
        at = {} if self.repetition is None else {"repetition": self.repetition, "attempt": self.attempt}
        warmup = {"warmup": True} if self.warmup else {}
        if self.part:
            values = {key: f"{v}, {self.part}" if key in ("name", "role") else v for key, v in values.items()}
        self.recorder.add(kind, **{**at, **warmup, **self.tags, **values})

    def measure(self, name: str, *, elapsed_ms: float, **more: Any) -> None:
        """A timed piece of work, done right. `bytes` and `rows` are what it worked on."""
        self.record("measure", name=name, elapsed_ms=elapsed_ms, **more)

    def check(self, name: str, right: bool, note: str = "") -> None:
        """A validation. A single wrong one makes the run's outcome `wrong`."""
        self.record("check", name=name, right=right, note=note)

    def replay(self, key: str) -> list[dict[str, Any]]:
        """Record the samples an application wrote to the lake, each of the kind it names; returns them."""
        samples = self.json_lines(key)
        for sample in samples:
            self.record(**sample)
        return samples

    def report_of(self, ran: Ran, key: str) -> list[dict[str, Any]]:
        """What the application wrote to the lake for us to read; its own failure is raised where it wrote nothing."""
        try:
            return self.json_lines(key)
        except NotFound:
            ran.explain()
            raise

    def judged(self, ran: Ran, key: str, **more: Any) -> None:
        """Record the report of an application that may fail, with `more`; its failure is raised where it told of none.

        A wrong check explains a failure better than an exit code does.
        """
        samples = self.report_of(ran, key)
        for sample in samples:
            self.record(**sample, **more)
        if all(sample.get("right", True) for sample in samples):
            ran.explain()

    def application(
        self,
        role: str,
        main_class: str,
        arguments: Sequence[str],
        *,
        name: str,
        size: ClusterSize | None = None,
        profile: str | None = None,
        settings: Mapping[str, str] | None = None,
        doing: Callable[[str], None] | None = None,
        must_succeed: bool = True,
        **more: Any,
    ) -> Ran:
        """Run one of the lab's applications to its end on a cluster of its own and record what it cost.

        `more` is recorded with it (which user it was, say). Raises `ClusterError` with the end of its output where it
        failed and `must_succeed`. May be called by several threads at once.
        """
        job = Job(
            run=self.recorder.description.id,
            role=role,
            name=name,
            main_class=main_class,
            arguments=arguments,
            size=size or self.size,
            profile=profile or self.profile,
            settings={**self.bench.gateway_settings(), **self.settings, **(settings or {})},
            cores_per_core=self.cores_per_core,
        )
        told = doing or self.listener.now

        def unless_stopping(text: str) -> None:
            if self.stopping.is_set():
                raise Stopped
            told(text)

        ran = self.launcher.run(job, unless_stopping)
        self.record("application", **ran.sample, **more)
        if must_succeed:
            ran.explain()
        return ran
