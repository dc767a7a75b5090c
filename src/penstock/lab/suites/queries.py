"""The TPC-DS queries by name, and the sets of them that the field uses. Their texts are in the workloads jar."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import InvalidInput, MissingRequirement
from penstock.lab.analysis import natural

_TWO_PARTS = (14, 23, 24, 39)

ALL = tuple(
    sorted(
        [f"q{n}" for n in range(1, 100) if n not in _TWO_PARTS]
        + [f"q{n}{part}" for n in _TWO_PARTS for part in "ab"]
        + ["ss_max"],
        key=natural,
    )
)

_IO_INTENSIVE = (
    "3 7 12 13 15 17 19 20 21 24 25 26 27 28 29 31 32 34 39 40 42 43 45 46 48 49 51 52 55 56 60 63 64 65 66 68 71 73 "
    "75 76 79 82 83 84 85 87 88 89 90 91 92 93 96 97"
)

SETS = {
    "all": ALL,
    "io54": tuple(
        name for n in _IO_INTENSIVE.split() for name in ALL if name == f"q{n}" or name in (f"q{n}a", f"q{n}b")
    ),
    "nine": tuple(f"q{n}" for n in (19, 42, 43, 52, 55, 63, 68, 72, 98)),
}
"""`io54` names 54 of the documents' queries; those of two parts (q24, q39) run as both."""


def select(names: str | None, chosen_set: str) -> tuple[str, ...]:
    """The queries of `--queries q3,q7` or of a set; `InvalidInput` names what is unknown."""
    if names is None:
        if chosen_set not in SETS:
            raise InvalidInput(f"There is no query set {chosen_set}", fix=f"choose one of {', '.join(SETS)}")
        return SETS[chosen_set]
    wanted = tuple(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in wanted if name not in ALL]
    if unknown or not wanted:
        near = [name for name in ALL if any(name.rstrip("ab") == other.rstrip("ab") for other in unknown)]
        raise InvalidInput(
            f"TPC-DS has no query {', '.join(unknown) or '(none given)'}",
            why="the queries are q1 to q99, with 14, 23, 24 and 39 in two parts a and b, and ss_max",
            fix=f"--queries {','.join(near)}" if near else "--queries q3,q7, or --set all",
        )
    return wanted


def texts(jar: Path, names: Sequence[str]) -> dict[str, str]:
    """The text of each query, the very one Spark runs."""
    with zipfile.ZipFile(jar) as archive:
        entries = {
            Path(entry).stem: entry for entry in archive.namelist() if entry.endswith(".sql") and "tpcds/" in entry
        }
        missing = [name for name in names if name not in entries]
        if missing:
            raise MissingRequirement(f"{jar.name} lacks the queries {', '.join(missing)}", fix="make setup")
        return {name: archive.read(entries[name]).decode() for name in names}
