"""The mixed workload: one user's queries, several users' queries and the enrichment, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from penstock import units
from penstock.lab import crowd
from penstock.lab.analysis import ALONE, TOGETHER
from penstock.lab.session import Session
from penstock.lab.suites import queries, users
from penstock.lab.suites.base import Suite
from penstock.lab.suites.crowdprogress import CrowdProgress, Member
from penstock.lab.suites.enrichment import Enrichment
from penstock.lab.suites.tpcds import Power, Tpcds, check_answers
from penstock.lab.suites.tpcdsdata import DataSet
from penstock.lab.suites.users import User
from penstock.model import Capacity, ClusterSize

_IO54 = queries.SETS["io54"]
_SINGLE = "single user"
_ENRICHMENT = "enrichment"
_BESIDE_THE_USERS = 2
"""The single user and the enrichment."""


@dataclass(frozen=True)
class Mixed(Suite):
    """A repetition is each part by itself, then all of them at once, every cluster of the same size all the time."""

    workload: ClassVar[str] = "mixed"
    title: ClassVar[str] = "Mixed workload"
    profile: ClassVar[str] = Tpcds.profile
    meaning = Tpcds.meaning

    scale: float = 1
    queries: tuple[str, ...] = _IO54
    users: int = 10
    users_queries: tuple[str, ...] = _IO54
    clicks_per_line: int = 3
    seed: int = 1
    alone: bool = True
    validate: bool = True

    @property
    def data(self) -> DataSet:
        return DataSet(self.scale)

    @property
    def enrichment(self) -> Enrichment:
        return Enrichment(scale=self.scale, clicks_per_line=self.clicks_per_line)

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        users.draw(self.users, self.users_queries, self.seed)
        self.enrichment.check_options()

    def default_size(self, capacity: Capacity) -> ClusterSize:
        return crowd.share(capacity, self.users + _BESIDE_THE_USERS)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:
        crowd.require_room(size, self.users, capacity, beside=_BESIDE_THE_USERS)

    def needs_bytes(self) -> int:
        return self.enrichment.needs_bytes() + users.shuffle_bytes(self.users + 1, self.scale)

    def prepare(self, session: Session) -> None:
        self.enrichment.prepare(replace(session, profile=Enrichment.profile))

    def repetition(self, session: Session) -> None:
        groups = {
            _SINGLE: users.draw(1, self.queries, self.seed),
            units.plural(self.users, "user"): users.draw(self.users, self.users_queries, self.seed + 1),
        }
        for group, members in groups.items():
            for user in members:
                session.record("order", group=group, user=user.number, queries=user.order)
        answers: dict[str, list[dict[str, Any]]] = {}
        if self.alone:
            for group, members in groups.items():
                answers |= self._at_once(session, ALONE, {group: members}, enriching=False)
            self._at_once(session, ALONE, {}, enriching=True)
        answers |= self._at_once(session, TOGETHER, groups, enriching=True)
        if self.validate and not session.warmup:
            session.listener.now("checking the answers")
            every = sorted({*self.queries, *self.users_queries}, key=queries.ALL.index)
            check_answers(session, self.data, every, users.distinct(answers))

    def _at_once(
        self, session: Session, phase: str, groups: Mapping[str, Sequence[User]], *, enriching: bool
    ) -> dict[str, list[dict[str, Any]]]:
        """These groups, and the enrichment if it is to be, side by side; returns who answered what."""
        count = sum(len(members) for members in groups.values()) + enriching
        session = crowd.crowded(session.within(phase).tagged(phase=phase), count)
        progress = CrowdProgress(session.listener.now, {})
        done: dict[str, dict[str, Power]] = {group: {} for group in groups}
        work: list[crowd.Work] = []
        for group, members in groups.items():
            for user in members:
                who = group if group == _SINGLE else f"user {user.number}"
                doing = progress.of(who, user.order)
                work.append(partial(self._ask, group=group, user=user, who=who, doing=doing, done=done[group]))
        if enriching:
            work.append(partial(self._enrich, doing=progress.of(_ENRICHMENT)))
        began = time.monotonic()
        crowd.at_once(session, work)
        if phase == TOGETHER:
            session.listener.note(f"All of it at once: {units.seconds(time.monotonic() - began)}.")
        for group, powers in done.items():
            elapsed = users.elapsed_ms(powers.values())
            session.listener.note(f"{group}, {phase}: {units.seconds(elapsed / 1000)}.")
            if all(users.complete(power) for power in powers.values()):
                asked = sum(len(power.samples) for power in powers.values())
                session.tagged(group=group).measure(group, elapsed_ms=elapsed, queries=asked)
        return {f"{who}, {phase}": power.answers() for powers in done.values() for who, power in powers.items()}

    def _ask(
        self,
        session: Session,
        *,
        group: str,
        user: User,
        who: str,
        doing: Callable[[str], None],
        done: dict[str, Power],
    ) -> None:
        done[who] = users.run_user(session.tagged(group=group), self.data, user, doing, role=group)

    def _enrich(self, session: Session, *, doing: Callable[[str], None]) -> None:
        began = time.monotonic()
        session = session.tagged(group=_ENRICHMENT)
        # What it times itself is a part of what is timed here, and would be counted twice.
        within = session.tagged(reference=True)
        self.enrichment.repetition(
            replace(within, profile=Enrichment.profile, listener=Member(session.listener, doing))
        )
        elapsed = (time.monotonic() - began) * 1000
        session.measure(_ENRICHMENT, elapsed_ms=round(elapsed))
        session.listener.note(f"{_ENRICHMENT}, {session.part}: {units.seconds(elapsed / 1000)}.")
