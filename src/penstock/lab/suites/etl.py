"""ETL: delimited text to Parquet and ORC, by month; what cannot be read is counted and kept aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.generated import Generated
from penstock.units import MIB

_MAIN = "io.penstock.workloads.etl"
FORMATS = ("parquet", "orc")
LINE_BYTES = 69
"""Of an average line (io.penstock.workloads.etl.Sales)."""


@dataclass(frozen=True)
class Etl(Suite):
    """A repetition converts all lines to each of the formats and validates what is there then."""

    workload: ClassVar[str] = "etl"
    title: ClassVar[str] = "ETL"
    profile: ClassVar[str] = "etl"

    rows: int = 1_000_000
    bad_share: float = 0.001
    """Of the lines; each millionth counts."""
    formats: tuple[str, ...] = FORMATS
    object_size_bytes: int = 128 * MIB
    """Of the text."""
    seed: int = 1
    reload: bool = False

    def check_options(self) -> None:
        if self.rows < 1:
            raise InvalidInput(f"There is nothing to convert in {self.rows} rows", fix="--rows 1m")
        if not 0 <= self.bad_share <= 1:
            raise InvalidInput(
                f"{self.bad_share:g} is no share", why="it is from 0 (none) to 1 (all)", fix="--bad-share 0.001"
            )
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise InvalidInput(
                f"There is no format {', '.join(unknown)}" if unknown else "There is no format to convert to",
                fix=f"--formats {','.join(FORMATS)}",
            )

    def needs_bytes(self) -> int:
        # The text, each table at less than the text's size, and the bad lines, which are kept with their reasons.
        text = self.rows * LINE_BYTES
        return int(text * (1 + len(self.formats) + 4 * self.bad_share))

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload)

    @property
    def data(self) -> Generated:
        bad_per_million = round(self.bad_share * 1e6)
        return Generated(
            title=f"Lines of text, {units.count(self.rows)}",
            prefix=f"etl/{self.rows}-bad{bad_per_million}-{self.object_size_bytes // MIB}m-seed{self.seed}",
            main_class=f"{_MAIN}.Generate",
            arguments=(
                *("--rows", str(self.rows)),
                *("--bad-share", f"{bad_per_million / 1e6:f}"),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity={
                "rows": self.rows,
                "bad_per_million": bad_per_million,
                "seed": self.seed,
                "object_size": self.object_size_bytes,
            },
        )

    def repetition(self, session: Session) -> None:
        output, report = session.key("tables"), session.key("convert") + ".jsonl"
        try:
            session.application(
                "convert",
                f"{_MAIN}.Convert",
                (
                    *("--input", session.uri(self.data.prefix)),
                    *("--output", session.uri(output)),
                    *("--formats", ",".join(self.formats)),
                    *("--report", session.uri(report)),
                ),
                name=f"ETL of {units.count(self.rows)} rows",
            )
        finally:
            session.remove(output)
        session.replay(report)
