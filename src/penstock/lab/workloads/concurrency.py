"""Concurrent users of TPC-DS: streams, and the mixed workload; each user has a separate cluster and order."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab import conditions, progress
from penstock.lab.analysis.resources import ALONE, TOGETHER
from penstock.lab.environment import last_samples, slug
from penstock.lab.launchers import JobResult, elapsed_ms
from penstock.lab.progress import ProgressListener
from penstock.lab.session import Session
from penstock.lab.workloads import tpcds
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import ObjectSize, Option
from penstock.lab.workloads.pipelines import Enrichment
from penstock.lab.workloads.tpcds import PowerRunResult, Tpcds, power_run, record_verdicts
from penstock.lab.workloads.tpcds_data import DEFAULT_OBJECT, TpcdsData
from penstock.model import Capacity, ClusterSize, State


@dataclass(frozen=True)
class User:
    """`number` counts from 1."""

    number: int
    order: tuple[str, ...]


def draw_users(count: int, queries: Sequence[str], seed: int) -> tuple[User, ...]:
    """Draw users with different random orders of the queries; the same seed gives the same orders.

    A user's order depends on the seed and the user's number alone: the first five of ten users have the orders of five.
    Raises `InvalidInput` where there are fewer orders than users.
    """
    if math.factorial(min(len(queries), 20)) < count:
        raise InvalidInput(
            f"{count} users need different orders, and {len(queries)} queries have too few",
            fix="choose fewer --users, or more --queries",
        )
    users: list[User] = []
    taken: set[tuple[str, ...]] = set()
    for number in range(1, count + 1):
        dice = random.Random(f"{seed}/{number}")  # noqa: S311 - an order, not a secret
        order = list(queries)
        dice.shuffle(order)
        while tuple(order) in taken:
            dice.shuffle(order)
        taken.add(tuple(order))
        users.append(User(number, tuple(order)))
    return tuple(users)


def run_user(
    session: Session, data: TpcdsData, user: User, doing: Callable[[str], None], *, role: str
) -> PowerRunResult:
    """Run a user's queries, record each with the user, and their total time if all succeeded.

    The total is not a `measure`: concurrent users share the time, and a sum over them would count it twice.
    """
    session = session.tagged(user=user.number)
    power = power_run(
        session,
        data,
        user.order,
        key=f"{slug(role)}/{user.number}",
        role=role,
        name=f"TPC-DS, {role}: user {user.number}",
        doing=doing,
    )
    if succeeded(power):
        started = min(sample["started_ms"] for sample in power.samples)
        session.record(
            "user",
            elapsed_ms=power.ran.sample["elapsed_ms"],
            queries=len(power.samples),
            until_first_query_ms=started - power.ran.sample["submitted_ms"],
        )
    return power


def shuffle_bytes(count: int, scale: float) -> int:
    """Estimate the shuffle files of all users together, at a third of the raw data each."""
    return int(count * scale * 0.3e9)


def succeeded(power: PowerRunResult) -> bool:
    """Return whether every query and the application succeeded."""
    return power.ran.succeeded and all(sample["status"] == "ok" for sample in power.samples)


def distinct_answers(answers: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Deduplicate users' answers: each distinct answer of a query once, with the users in `whose`.

    Answers are the same only if their rows are literally equal, in the same order: this saves the checker repeated
    work, and leaves the verdict to it.
    """
    found: dict[str, dict[str, Any]] = {}
    for label, lines in answers.items():
        for line in lines:
            found.setdefault(json.dumps(line), {**line, "whose": []})["whose"].append(label)
    return list(found.values())


class ConcurrentProgress:
    """One progress line for concurrent applications.

    `say` gets the line; `past` holds the seconds of each query where known. May be called by several threads at once.
    """

    def __init__(
        self, say: Callable[[str], None], past: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._past = past
        self._clock = clock
        self._turn = threading.Lock()
        self._at: dict[str, str] = {}
        self._began: dict[str, float] = {}
        self._left: dict[str, float | None] = {}

    def of(self, member: str, order: Sequence[str] = ()) -> Callable[[str], None]:
        """Return a callback for the job descriptions of one application. `order` holds its queries, if it runs any."""
        with self._turn:
            self._at[member] = State.ACCEPTED.value
            if order:
                self._left[member] = None

        def doing(description: str) -> None:
            with self._turn:
                self._note(member, order, description)
                self._say(self._line())

        return doing

    def _note(self, member: str, order: Sequence[str], description: str) -> None:
        at = progress.parse_position(description)
        if at is not None:
            _, index, total = at
            elapsed = self._clock() - self._began.setdefault(member, self._clock())
            self._at[member] = f"{index} of {total}"
            self._left[member] = progress.seconds_left(order, index - 1, elapsed, self._past)
        elif description != State.RUNNING.value or member not in self._began:  # between two queries nothing changes
            self._at[member] = description
            if description in {state.value for state in State if state.final}:
                self._left[member] = 0.0

    def _line(self) -> str:
        line = ", ".join(f"{member}: {at}" for member, at in self._at.items())
        known = [left for left in self._left.values() if left is not None]
        if len(known) < len(self._left) or not any(known):
            return line
        return f"{line}; about {units.seconds(max(known))} left"


@dataclass(frozen=True)
class ConcurrentListener:
    """The listener of a suite that runs beside others: its steps go into the common progress line."""

    listener: ProgressListener
    doing: Callable[[str], None]

    def step(self, title: str) -> None:
        self.doing(title)

    def now(self, text: str) -> None:
        self.doing(text)

    def note(self, text: str) -> None:
        self.listener.note(text)

    def elapsed(self) -> float:
        return self.listener.elapsed()


Seed = Annotated[int, Option("Seed of the random query orders.")]
Validate = Annotated[bool, Option("Verify every answer of every user against DuckDB.")]


@dataclass(frozen=True)
class Streams(Suite):
    """A repetition is one user alone, then all of them at once.

    The single user has the first user's order and a cluster of the same size as all others, so that only the other
    users make a difference.
    """

    workload: ClassVar[str] = "streams"
    title: ClassVar[str] = "TPC-DS streams"
    profile: ClassVar[str] = Tpcds.profile
    meaning = Tpcds.meaning

    users: Annotated[int, Option("Concurrent users, each with a dedicated cluster.", least=2)] = 5
    scale: tpcds.Scale = 1
    queries: tpcds.Queries = tpcds.ALL
    seed: Seed = 1
    alone: Annotated[bool, Option("Measure a single user first, as the baseline of the slowdown.")] = True
    validate: Validate = True
    object_size_bytes: ObjectSize = DEFAULT_OBJECT

    @property
    def data(self) -> TpcdsData:
        return TpcdsData(self.scale, self.object_size_bytes)

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        if self.users < 2:
            raise InvalidInput(
                "Streams need at least two users", fix="--users 2, or for a single one: penstock lab tpcds"
            )
        draw_users(self.users, self.queries, self.seed)

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return conditions.equal_share(capacity, self.users)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        conditions.require_clusters_fit(size, self.users, capacity)

    def needs_bytes(self) -> int:
        # The data and the checker's copy of it once, and all users' shuffle files.
        return Tpcds(self.scale).needs_bytes() + shuffle_bytes(self.users, self.scale)

    def prepare(self, session: Session) -> None:
        self.data.ensure(session)

    def repetition(self, session: Session) -> None:
        users = draw_users(self.users, self.queries, self.seed)
        for user in users:
            session.record("order", user=user.number, seed=self.seed, queries=user.order)
        answers: dict[str, list[dict[str, Any]]] = {}
        past = self._past(session)
        if self.alone:
            (single,) = self._run(session.tagged(phase=ALONE), users[:1], past).values()
            answers["the user alone"] = single.answers()
            past = {sample["query"]: sample["elapsed_ms"] / 1000 for sample in single.samples}
        for number, power in self._run(session.tagged(phase=TOGETHER), users, past).items():
            answers[f"user {number}"] = power.answers()
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            record_verdicts(session, self.data, self.queries, distinct_answers(answers))

    def _run(self, session: Session, users: Sequence[User], past: Mapping[str, float]) -> dict[int, PowerRunResult]:
        """Run users at once; return their results by number. The total time is a measure if every query succeeded."""
        name = units.plural(len(users), "user")
        session = conditions.oversubscribed(session, len(users))
        progress = ConcurrentProgress(session.listener.now, past)
        doing = {user: progress.of(f"user {user.number}", user.order) for user in users}
        done: dict[int, PowerRunResult] = {}

        def run(user: User, within: Session) -> None:
            done[user.number] = run_user(within, self.data, user, doing[user], role=name)

        conditions.run_concurrently(session, [partial(run, user) for user in users])
        elapsed = elapsed_ms(power.ran for power in done.values())
        if all(succeeded(power) for power in done.values()):
            session.measure(name, elapsed_ms=elapsed, queries=len(users) * len(self.queries))
        session.listener.note(f"{name}: {units.seconds(elapsed / 1000)}.")
        return dict(sorted(done.items()))

    def _past(self, session: Session) -> dict[str, float]:
        """Return the seconds of each query in the newest run of streams, if any."""
        samples = last_samples(session.bench.home, self.workload, self.scale, "query")
        return {sample["query"]: sample["elapsed_ms"] / 1000 for sample in samples if sample["status"] == "ok"}


_IO54 = tpcds.SETS["io54"]
_SINGLE = "single user"
_ENRICHMENT = "enrichment"
_ALL_PARTS = "all parts"
_OTHER_CLUSTERS = 2
"""The single user and the enrichment."""


@dataclass(frozen=True)
class Mixed(Suite):
    """A repetition is each part by itself, then all parts at once; every cluster always has the same size."""

    workload: ClassVar[str] = "mixed"
    title: ClassVar[str] = "Mixed workload"
    profile: ClassVar[str] = Tpcds.profile
    meaning = Tpcds.meaning

    users: Annotated[int, Option("Concurrent users, in addition to the single one.", least=1)] = 10
    scale: tpcds.Scale = 1
    queries: Annotated[
        tuple[str, ...],
        tpcds.QUERIES,
        replace(tpcds.QUERY_SET, help="Query set of the single user: all, io54 or nine."),
        tpcds.selected("queries", "set"),
    ] = _IO54
    users_queries: Annotated[
        tuple[str, ...],
        Option("Queries of the other users, e.g. q3,q7."),
        replace(tpcds.QUERY_SET, name="users-set", help="Query set of the other users: all, io54 or nine."),
        tpcds.selected("users_queries", "users_set"),
    ] = _IO54
    clicks_per_line: Annotated[int, Option("Clicks for each order line of the enrichment.", least=1)] = 3
    seed: Seed = 1
    alone: Annotated[bool, Option("Measure each part alone first, as the baseline of the slowdown.")] = True
    validate: Validate = True

    @property
    def data(self) -> TpcdsData:
        return TpcdsData(self.scale)

    @property
    def enrichment(self) -> Enrichment:
        return Enrichment(scale=self.scale, clicks_per_line=self.clicks_per_line)

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        draw_users(self.users, self.users_queries, self.seed)
        self.enrichment.check_options()

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return conditions.equal_share(capacity, self.users + _OTHER_CLUSTERS)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        conditions.require_clusters_fit(size, self.users, capacity, beside=_OTHER_CLUSTERS)

    def needs_bytes(self) -> int:
        return self.enrichment.needs_bytes() + shuffle_bytes(self.users + 1, self.scale)

    def prepare(self, session: Session) -> None:
        self.enrichment.prepare(replace(session, profile=Enrichment.profile))

    def repetition(self, session: Session) -> None:
        groups = {
            _SINGLE: draw_users(1, self.queries, self.seed),
            units.plural(self.users, "user"): draw_users(self.users, self.users_queries, self.seed + 1),
        }
        for group, members in groups.items():
            for user in members:
                session.record("order", group=group, user=user.number, queries=user.order)
        answers: dict[str, list[dict[str, Any]]] = {}
        if self.alone:
            for group, members in groups.items():
                answers |= self._run_together(session, ALONE, {group: members}, enriching=False)
            self._run_together(session, ALONE, {}, enriching=True)
        answers |= self._run_together(session, TOGETHER, groups, enriching=True)
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            every = sorted({*self.queries, *self.users_queries}, key=tpcds.ALL.index)
            record_verdicts(session, self.data, every, distinct_answers(answers))

    def _run_together(
        self, session: Session, phase: str, groups: Mapping[str, Sequence[User]], *, enriching: bool
    ) -> dict[str, list[dict[str, Any]]]:
        """Run groups of users, and the enrichment if `enriching`, at once; return the answers of each user.

        The phase with all parts is one measure, from the first submission to the end of the last application. Its parts
        are measures that count in no total, since a sum over them would count the same minutes several times.
        """
        count = sum(len(members) for members in groups.values()) + enriching
        session = conditions.oversubscribed(session.within(phase).tagged(phase=phase), count)
        progress = ConcurrentProgress(session.listener.now, {})
        done: dict[str, dict[str, PowerRunResult]] = {group: {} for group in groups}
        work: list[conditions.Task] = []
        for group, members in groups.items():
            for user in members:
                label = group if group == _SINGLE else f"user {user.number}"
                doing = progress.of(label, user.order)
                work.append(partial(self._query, group=group, user=user, label=label, doing=doing, done=done[group]))
        enriched: list[JobResult] = []
        if enriching:
            work.append(partial(self._enrich, doing=progress.of(_ENRICHMENT), done=enriched))
        conditions.run_concurrently(session, work)
        if phase == TOGETHER:
            every = [power for powers in done.values() for power in powers.values()]
            elapsed = elapsed_ms([*(power.ran for power in every), *enriched])
            session.listener.note(f"All parts at once: {units.seconds(elapsed / 1000)}.")
            if all(map(succeeded, every)):
                session.measure(_ALL_PARTS, elapsed_ms=elapsed)
        for group, powers in done.items():
            elapsed = elapsed_ms(power.ran for power in powers.values())
            session.listener.note(f"{group}, {phase}: {units.seconds(elapsed / 1000)}.")
            if all(succeeded(power) for power in powers.values()):
                queries = sum(len(power.samples) for power in powers.values())
                session.tagged(group=group, **_excluded(phase)).measure(group, elapsed_ms=elapsed, queries=queries)
        return {f"{label}, {phase}": power.answers() for powers in done.values() for label, power in powers.items()}

    def _query(
        self,
        session: Session,
        *,
        group: str,
        user: User,
        label: str,
        doing: Callable[[str], None],
        done: dict[str, PowerRunResult],
    ) -> None:
        done[label] = run_user(session.tagged(group=group), self.data, user, doing, role=group)

    def _enrich(self, session: Session, *, doing: Callable[[str], None], done: list[JobResult]) -> None:
        session = session.tagged(group=_ENRICHMENT)
        # Its own measures are a part of the time measured here, and would be counted twice.
        within = session.tagged(reference=True)
        ran = self.enrichment.enrich(
            replace(within, profile=Enrichment.profile, listener=ConcurrentListener(session.listener, doing))
        )
        done.append(ran)
        elapsed = elapsed_ms([ran])
        session.tagged(**_excluded(session.part)).measure(_ENRICHMENT, elapsed_ms=elapsed)
        session.listener.note(f"{_ENRICHMENT}, {session.part}: {units.seconds(elapsed / 1000)}.")


def _excluded(phase: str) -> Mapping[str, bool]:
    """The tag of a part of this phase that excludes it from totals."""
    return {"reference": True} if phase == TOGETHER else {}
