"""Sustained ingest: many writers for a set time, and at its end every object read back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.clients import run_clients
from penstock.units import MIB

_MAIN = "io.penstock.workloads.ingest.Ingest"
_FASTEST_BYTES_PER_SECOND = 400 * MIB
"""About what the fastest embedded stores were seen to take; for the space that an ingest without a rate may need."""


@dataclass(frozen=True)
class Ingest(Suite):
    workload: ClassVar[str] = "ingest"
    title: ClassVar[str] = "Sustained ingest"
    profile: ClassVar[str] = "default"

    seconds: int = 60
    writers: int = 8
    object_size_bytes: int = 16 * MIB
    bytes_per_second: int = 0
    """Of all writers together; 0 for as fast as it goes."""
    keep: bool = False
    """Leave the objects in the lake."""
    seed: int = 0

    def check_options(self) -> None:
        if self.seconds < 1 or self.writers < 1 or self.object_size_bytes < 1:
            raise InvalidInput(
                "An ingest needs time, writers and objects", fix="--duration 60s --writers 8 --object-size 16m"
            )
        if self.bytes_per_second < 0 or self.seed < 0:
            raise InvalidInput("Neither a rate nor the seed can be negative", fix="--rate 100m --seed 0")
        if 0 < self.bytes_per_second * self.seconds < self.object_size_bytes * self.writers:
            raise InvalidInput(
                f"At {units.rate(self.bytes_per_second)} not every writer gets to write an object in "
                f"{units.seconds(self.seconds)}",
                fix="a higher --rate, a longer --duration, fewer --writers or a smaller --object-size",
            )

    def needs_bytes(self) -> int:
        return self.seconds * (self.bytes_per_second or _FASTEST_BYTES_PER_SECOND)

    def repetition(self, session: Session) -> None:
        run_clients(
            session,
            "ingest",
            _MAIN,
            (
                *("--seconds", str(self.seconds)),
                *("--writers", str(self.writers)),
                *("--object-size", f"{self.object_size_bytes}b"),
                *(("--rate", f"{self.bytes_per_second}b") if self.bytes_per_second else ()),
                *("--seed", str(self.seed)),
                *("--keep", str(self.keep).lower()),
            ),
            name=f"Ingest by {units.plural(self.writers, 'writer')}",
            most=self.writers,
            keep=self.keep,
            doing=self.progress(session.listener.now),
        )
        if self.keep:
            session.listener.note(f"The objects are left at {session.uri(session.key('ingest'))}")

    def progress(
        self, now: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> Callable[[str], None]:
        """Turns what the application says it is at into how far it is: Spark's description of a job never changes."""
        began: float | None = None

        def doing(description: str) -> None:
            nonlocal began
            if not description.startswith("ingest for "):
                now(description)
                return
            began = clock() if began is None else began
            passed = min(clock() - began, self.seconds)
            now(f"ingest ({units.seconds(passed)} of {units.seconds(self.seconds)})")

        return doing
