"""DFSIO: the throughput of the lake, through Hadoop's file system, against the number of clients."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import InvalidInput
from penstock.lab.launcher import Ran
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.clients import run_clients
from penstock.units import MIB

_MAIN = "io.penstock.workloads.dfsio.Dfsio"


@dataclass(frozen=True)
class Dfsio(Suite):
    """For each number of clients the same amount of data is written, and read by others than its writers."""

    workload: ClassVar[str] = "dfsio"
    title: ClassVar[str] = "DFSIO"
    profile: ClassVar[str] = "default"

    clients: tuple[int, ...] = (1, 2, 4, 8)
    file_size_bytes: int = 64 * MIB
    files: int = 0
    """In all, shared out among the clients; 0 for as many as there are clients at the most."""
    write: bool = True
    read: bool = True
    shuffle: bool = False
    """Each repetition takes the numbers of clients in an order of its own, drawn from the seed."""
    seed: int = 0
    """Of the contents, and of the order."""

    @property
    def file_count(self) -> int:
        return self.files or max(self.clients)

    def check_options(self) -> None:
        if not self.clients or min(self.clients) < 1 or len(set(self.clients)) < len(self.clients):
            raise InvalidInput(
                "The numbers of clients make no curve", why="each is 1 or more, and there once", fix="--clients 1,2,4,8"
            )
        if max(self.clients) > self.file_count:
            raise InvalidInput(
                f"{max(self.clients)} clients are more than {self.files} files",
                why="each client needs at least one file of its own",
                fix=f"--files {max(self.clients)}",
            )
        if self.file_size_bytes < 1 or self.seed < 0:
            raise InvalidInput("Neither a file's size nor the seed can be negative", fix="--file-size 64m --seed 0")
        if not (self.write or self.read):
            raise InvalidInput("Nothing is left to measure", fix="leave out --no-write or --no-read")

    def needs_bytes(self) -> int:
        """Many stores give back what was deleted only later, so each round of writing counts."""
        return self.file_count * self.file_size_bytes * (len(self.clients) if self.write else 1)

    def order(self, repetition: int) -> tuple[int, ...]:
        if not self.shuffle:
            return self.clients
        # Seeded by a text, which unlike a tuple has the same hash in every process.
        return tuple(random.Random(f"{self.seed}/{repetition}").sample(self.clients, len(self.clients)))  # noqa: S311

    def repetition(self, session: Session) -> None:
        self.run(session)

    def run(self, session: Session) -> Ran:
        """One repetition, and how its application went."""
        order = self.order(session.repetition or 0)
        return run_clients(
            session,
            "dfsio",
            _MAIN,
            (
                *("--clients", ",".join(str(count) for count in order)),
                *("--files", str(self.file_count)),
                *("--file-size", f"{self.file_size_bytes}b"),
                *("--measure", ",".join(self._measured())),
                *("--seed", str(self.seed)),
            ),
            name=f"DFSIO, {max(self.clients)} clients at the most",
            most=max(self.clients),
            order=list(order),
        )

    def _measured(self) -> list[str]:
        asked: Mapping[str, bool] = {"write": self.write, "read": self.read}
        return [name for name, wanted in asked.items() if wanted]
