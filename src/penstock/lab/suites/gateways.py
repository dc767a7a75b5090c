"""Many gateways: what a second one brings when each has half the bandwidth, and what the death of one costs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from penstock.errors import InvalidInput
from penstock.lab.limited import LimitedGateways, limited_gateways, require_http
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.dfsio import Dfsio
from penstock.lake.model import Lake
from penstock.profiles.s3a import S3A
from penstock.units import MIB


@dataclass(frozen=True)
class Gateways(Suite):
    """DFSIO with one number of clients, through gateways of the lab's own before the lake."""

    workload: ClassVar[str] = "gateways"
    title: ClassVar[str] = "Gateways"
    profile: ClassVar[str] = "default"

    gateways: int = 2
    rate: int = 16 * MIB
    """Bytes per second that each gateway lets pass, in both directions together."""
    clients: int = 4
    file_size_bytes: int = 32 * MIB
    files: int = 0
    """In all; 0 for two for each client."""
    kill: bool = False
    """One gateway is killed halfway through the writing, and stays dead."""
    seed: int = 0

    @property
    def load(self) -> Dfsio:
        files = self.files or 2 * self.clients
        return Dfsio((self.clients,), self.file_size_bytes, files, seed=self.seed)

    def check_options(self) -> None:
        if self.gateways < 1 or self.rate < MIB:
            raise InvalidInput(
                "There is at least one gateway, and it lets a MiB per second pass", fix="--gateways 2 --rate 16m"
            )
        if self.kill and self.gateways < 2:
            raise InvalidInput("A single gateway cannot be spared", fix="--gateways 2 --kill")
        self.load.check_options()

    def needs_bytes(self) -> int:
        return self.load.needs_bytes()

    def check_lake(self, lake: Lake) -> None:
        require_http(lake)

    def repetition(self, session: Session) -> None:
        with (
            limited_gateways(session.bench.lake, self.gateways, self.rate) as gateways,
            self._disturbed(gateways, session),
        ):
            # The pages' cache would answer the reads, and none of them would see a gateway.
            settings = {
                f"{S3A}endpoint": gateways.endpoints[0],
                f"{S3A}penstock.endpoints": ",".join(gateways.endpoints),
                f"{S3A}penstock.cache.enabled": "false",
            }
            ran = self.load.run(replace(session, settings={**session.settings, **settings}))
        failed = ran.sample.get("summary", {}).get("tasks_failed", 0)
        session.check("no task failed", failed == 0, f"{failed} failed")

    @contextlib.contextmanager
    def _disturbed(self, gateways: LimitedGateways, session: Session) -> Iterator[None]:
        if not self.kill:
            yield
            return
        # Of what is written, it passes its share; half of that is in the middle of the writing.
        middle = self.load.file_count * self.file_size_bytes // self.gateways // 2
        with gateways.killing_one(middle) as killed:
            yield
        session.check("one gateway was killed", killed.is_set(), f"after {middle} bytes")
