"""TPC-DS streams: several users at once, each with a cluster of their own and the queries in an order of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab import crowd
from penstock.lab.analysis import ALONE, TOGETHER
from penstock.lab.bench import last_samples
from penstock.lab.session import Session
from penstock.lab.suites import queries, users
from penstock.lab.suites.base import Suite
from penstock.lab.suites.crowdprogress import CrowdProgress
from penstock.lab.suites.tpcds import Power, Tpcds, check_answers
from penstock.lab.suites.tpcdsdata import DEFAULT_OBJECT, DataSet
from penstock.lab.suites.users import User
from penstock.model import Capacity, ClusterSize


@dataclass(frozen=True)
class Streams(Suite):
    """A repetition is one user alone, then all of them at once. The one alone has the first user's order and a cluster
    of the same size as everyone's, so what differs is the company."""

    workload: ClassVar[str] = "streams"
    title: ClassVar[str] = "TPC-DS streams"
    profile: ClassVar[str] = Tpcds.profile
    meaning = Tpcds.meaning

    scale: float = 1
    object_size_bytes: int = DEFAULT_OBJECT
    users: int = 5
    queries: tuple[str, ...] = queries.ALL
    seed: int = 1
    alone: bool = True
    validate: bool = True

    @property
    def data(self) -> DataSet:
        return DataSet(self.scale, self.object_size_bytes)

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        if self.users < 2:
            raise InvalidInput("A stream needs two users", fix="--users 2, or for a single one: penstock lab tpcds")
        users.draw(self.users, self.queries, self.seed)

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return crowd.share(capacity, self.users)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        crowd.require_room(size, self.users, capacity)

    def needs_bytes(self) -> int:
        # The data and the checker's copy of it once, and everyone's shuffle files.
        return Tpcds(self.scale).needs_bytes() + users.shuffle_bytes(self.users, self.scale)

    def prepare(self, session: Session) -> None:
        self.data.ensure(session)

    def repetition(self, session: Session) -> None:
        everyone = users.draw(self.users, self.queries, self.seed)
        for user in everyone:
            session.record("order", user=user.number, seed=self.seed, queries=user.order)
        answers: dict[str, list[dict[str, Any]]] = {}
        past = self._past(session)
        if self.alone:
            (single,) = self._run(session.tagged(phase=ALONE), everyone[:1], past).values()
            answers["the user alone"] = single.answers()
            past = {sample["query"]: sample["elapsed_ms"] / 1000 for sample in single.samples}
        for number, power in self._run(session.tagged(phase=TOGETHER), everyone, past).items():
            answers[f"user {number}"] = power.answers()
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            check_answers(session, self.data, self.queries, users.distinct(answers))

    def _run(self, session: Session, some: Sequence[User], past: Mapping[str, float]) -> dict[int, Power]:
        """Some users at once, by their numbers. What all of them took is a measure where every query succeeded."""
        name = units.plural(len(some), "user")
        session = crowd.crowded(session, len(some))
        progress = CrowdProgress(session.listener.now, past)
        doing = {user: progress.of(f"user {user.number}", user.order) for user in some}
        done: dict[int, Power] = {}

        def run(user: User, within: Session) -> None:
            done[user.number] = users.run_user(within, self.data, user, doing[user], role=name)

        crowd.at_once(session, [partial(run, user) for user in some])
        elapsed = users.elapsed_ms(done.values())
        if all(users.complete(power) for power in done.values()):
            session.measure(name, elapsed_ms=elapsed, queries=len(some) * len(self.queries))
        session.listener.note(f"{name}: {units.seconds(elapsed / 1000)}.")
        return dict(sorted(done.items()))

    def _past(self, session: Session) -> dict[str, float]:
        """Seconds of each query in the newest run of streams, where there is one."""
        samples = last_samples(session.bench.home, self.workload, self.scale, "query")
        return {sample["query"]: sample["elapsed_ms"] / 1000 for sample in samples if sample["status"] == "ok"}
