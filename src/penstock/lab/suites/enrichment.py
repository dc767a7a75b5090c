"""Enrichment: TPC-DS's web sales joined with the log of the shop's clicks, and written back by month."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import InvalidInput
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.generated import Generated
from penstock.lab.suites.tpcds import Tpcds
from penstock.lab.suites.tpcdsdata import DataSet
from penstock.lake.model import Lake
from penstock.units import MIB

_MAIN = "io.penstock.workloads.enrichment"
_ORDER_LINES = 720_000
"""Of web sales at scale 1; as many times more at another."""
_CLICK_BYTES = 235


@dataclass(frozen=True)
class Enrichment(Suite):
    """A repetition reads sales and clicks, joins, writes, and validates what is there then."""

    workload: ClassVar[str] = "enrichment"
    title: ClassVar[str] = "Enrichment"
    profile: ClassVar[str] = "etl"

    scale: float = 1
    clicks_per_line: int = 3
    """In the mean, before the purchase; half as many again belong to no order line."""
    object_size_bytes: int = 128 * MIB
    """Of the clicks' log."""
    seed: int = 1
    reload: bool = False

    @property
    def description_scale(self) -> float:
        return self.scale

    def check_options(self) -> None:
        if self.scale <= 0:
            raise InvalidInput(f"There are no sales of scale {self.scale:g}", fix="--scale 0.1")
        if self.clicks_per_line < 1:
            raise InvalidInput("Without clicks there is nothing to join", fix="--clicks-per-line 3")

    def needs_bytes(self) -> int:
        # TPC-DS, the log, its clicks once more in the shuffle, and the sales as they are written back.
        log = self.scale * _ORDER_LINES * (1.5 * self.clicks_per_line + 1) * _CLICK_BYTES
        return Tpcds(scale=self.scale).needs_bytes() + int(2 * log + self.scale * 0.1e9)

    def prepare(self, session: Session) -> None:
        manifest = json.loads(self.sales.ensure(session))
        rows = next(table["rows"] for table in manifest["tables"] if table["table"] == "web_sales")
        self.clicks(session.bench.lake, order_lines=rows).ensure(session, reload=self.reload)

    @property
    def sales(self) -> DataSet:
        return DataSet(self.scale)

    @property
    def clicks_prefix(self) -> str:
        log = f"clicks{self.clicks_per_line}-{self.object_size_bytes // MIB}m-seed{self.seed}"
        return f"enrichment/{self.sales.name}-{log}"

    def clicks(self, lake: Lake, *, order_lines: int) -> Generated:
        """Made for the very sales there are: with others, the clicks that match would be others."""
        identity: dict[str, Any] = {
            "order_lines": order_lines,
            "clicks_per_line": self.clicks_per_line,
            "seed": self.seed,
            "object_size": self.object_size_bytes,
        }
        return Generated(
            title=f"Clicks around the web sales of scale {self.scale:g}",
            prefix=self.clicks_prefix,
            main_class=f"{_MAIN}.GenerateClicks",
            arguments=(
                *("--database", self.sales.database(lake)),
                *("--clicks-per-line", str(self.clicks_per_line)),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity=identity,
        )

    def repetition(self, session: Session) -> None:
        output, report = session.key("sales"), session.key("enrich") + ".jsonl"
        try:
            session.application(
                "enrich",
                f"{_MAIN}.Enrich",
                (
                    *("--database", self.sales.database(session.bench.lake)),
                    *("--clicks", session.uri(self.clicks_prefix)),
                    *("--output", session.uri(output)),
                    *("--report", session.uri(report)),
                ),
                name=f"Enrichment, scale {self.scale:g}",
            )
        finally:
            session.remove(output)
        session.replay(report)
