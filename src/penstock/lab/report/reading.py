"""What each query read, of one run or of arms side by side, and what reading less gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import Comparison, Ratio, Reading
from penstock.lab.records import Run
from penstock.lab.report.document import Section, Table

_GAINS = (0.05, 0.40)
_LOSS = 0.03

_FIGURES: Mapping[str, tuple[Callable[[Reading], float | None], Callable[[float], str]]] = {
    "files": (lambda reading: reading.all_files, units.count),
    "in files": (lambda reading: reading.all_file_bytes, units.data),
    "GETs": (lambda reading: reading.gets, units.count),
    "read": (lambda reading: reading.bytes_read, units.data),
}
_NOTE = (
    "Files are those that scans opened, after partition pruning and skipping, and “in files” is their size; GETs and "
    "bytes read are those of driver and executors together while the query ran."
)


def of_run(run: Run) -> list[Section]:
    """Nothing where reads were not recorded."""
    found = analysis.readings(run)
    if not found:
        return []
    rows = [(name, *_cells(reading)) for name, reading in _with_total(found).items()]
    table = Table(
        ("query", *_FIGURES), rows, _numbers(1, len(_FIGURES)), folded=units.plural(len(found), "query", "queries")
    )
    return [Section("What each query read", _NOTE, [table]), *_index([run])]


def sections(runs: Sequence[Run], names: Sequence[str], found: Sequence[Comparison]) -> list[Section]:
    """Each run but the first against the first, as `found` compares them; nothing where reads were not recorded."""
    before, *others = (analysis.readings(run) for run in runs)
    made: list[Section] = []
    for name, after, comparison in zip(names[1:], others, found, strict=True):
        both = [query for query in before if query in after]
        if both:
            made += [
                _gains(names[0], name, comparison.parts),
                _side_by_side(
                    (names[0], name),
                    {query: before[query] for query in both},
                    {query: after[query] for query in both},
                    {part.name: part for part in comparison.parts},
                ),
            ]
    return [*made, *_index(runs)] if made else []


def data(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any]:
    """The numbers of each run by query, for the JSON form."""
    return {
        name: {
            query: {
                "files": reading.files,
                "file_bytes": reading.file_bytes,
                "gets": reading.gets,
                "bytes_read": reading.bytes_read,
            }
            for query, reading in analysis.readings(run).items()
        }
        for run, name in zip(runs, names, strict=True)
    }


def _gains(baseline: str, candidate: str, parts: Iterable[Ratio]) -> Section:
    by_gain = sorted(parts, key=lambda part: part.ratio)
    rows = [
        _counted(f"gained more than {gain:.0%}", [part for part in by_gain if 1 - part.ratio > gain]) for gain in _GAINS
    ]
    lost = [part for part in reversed(by_gain) if part.ratio - 1 > _LOSS]
    rows.append(_counted(f"lost more than {_LOSS:.0%}", lost))
    rows.append(
        _counted(f"lost more than {_LOSS:.0%} beyond the noise", [part for part in lost if _surely_slower(part)])
    )
    note = (
        f"{candidate} against {baseline}, by the medians of the queries' times. Beyond the noise is what the 95 % "
        f"interval says; with fewer than {analysis.FEWEST} rounds of each, that every round was slower than any of the "
        "other."
    )
    return Section(
        f"Gains of {candidate}", note, [Table(("queries that", "how many", "which"), rows, frozenset({1}))], brief=True
    )


def _surely_slower(part: Ratio) -> bool:
    if part.interval:
        return part.verdict == "slower"
    # One round of each tells nothing of its noise.
    return min(part.baseline.count, part.candidate.count) > 1 and part.candidate.low > part.baseline.high


def _counted(what: str, parts: Sequence[Ratio]) -> tuple[str, str, str]:
    return what, str(len(parts)), ", ".join(f"{part.name} {(1 - part.ratio) * 100:+.0f} %" for part in parts)


def _side_by_side(
    names: tuple[str, str], before: Mapping[str, Reading], after: Mapping[str, Reading], times: Mapping[str, Ratio]
) -> Section:
    whole_before, whole_after = _with_total(before), _with_total(after)
    rows = []
    for query, one in whole_before.items():
        other = whole_after[query]
        pairs = zip(_cells(one), _cells(other), strict=True)
        took = times.get(query)
        rows.append(
            (
                query,
                *(cell if cell == same else f"{cell} → {same}" for cell, same in pairs),
                f"{units.digits(took.baseline.median)} → {units.digits(took.candidate.median)}" if took else "",
                units.number(took.ratio) if took else "",
                _fewer(one, other) if query in before else "",
            )
        )
    columns = ("query", *_FIGURES, "seconds", "ratio", "tables")
    note = f"{names[0]} → {names[1]}. {_NOTE}"
    return Section(f"What was read: {names[1]}", note, [Table(columns, rows, _numbers(1, len(_FIGURES) + 2)).filled()])


def _fewer(before: Reading, after: Reading) -> str:
    """The tables of which another number of files was opened, the largest difference first."""
    differences = [
        (count - after.files.get(table, 0), table, count)
        for table, count in before.files.items()
        if count != after.files.get(table, 0)
    ]
    return ", ".join(
        f"{table} {units.count(count)} → {units.count(after.files.get(table, 0))}"
        for _, table, count in sorted(differences, reverse=True)
    )


def _with_total(found: Mapping[str, Reading]) -> dict[str, Reading]:
    def total(figure: Callable[[Reading], float | None]) -> float | None:
        values = [value for reading in found.values() if (value := figure(reading)) is not None]
        return sum(values) if len(values) == len(found) else None

    whole = Reading(
        "total",
        files={"": sum(reading.all_files for reading in found.values())},
        file_bytes={"": sum(reading.all_file_bytes for reading in found.values())},
        gets=total(lambda reading: reading.gets),
        bytes_read=total(lambda reading: reading.bytes_read),
    )
    return {"total": whole, **found}


def _cells(reading: Reading) -> tuple[str, ...]:
    values = ((figure(reading), shown) for figure, shown in _FIGURES.values())
    return tuple("" if value is None else shown(value) for value, shown in values)


def _numbers(first: int, many: int) -> frozenset[int]:
    return frozenset(range(first, first + many))


def _index(runs: Sequence[Run]) -> list[Section]:
    """What the skipping index cost to build, of the run that built it."""
    built = next((samples for run in runs if (samples := run.of_kind("index"))), [])
    if not built:
        return []

    def row(name: str, files: float, build_ms: float, refresh_ms: float) -> tuple[str, ...]:
        rate = units.digits(build_ms / files) if files else ""
        return (name, units.count(files), units.digits(build_ms / 1000), rate, units.digits(refresh_ms / 1000))

    rows = [row("total", *(sum(sample[figure] for sample in built) for figure in ("files", "build_ms", "refresh_ms")))]
    rows += [
        row(str(sample["table"]), sample["files"], sample["build_ms"], sample["refresh_ms"])
        for sample in sorted(built, key=lambda sample: -sample["files"])
    ]
    columns = ("table", "files", "built, s", "s per 1000 files", "refreshed, s")
    table = Table(columns, rows, _numbers(1, 4), folded=units.plural(len(built), "table"))
    return [Section("Skipping index", "Refreshed with nothing changed since it was built.", [table])]
