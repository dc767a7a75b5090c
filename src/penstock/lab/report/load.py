"""What a load generator says of the requests that failed, and of itself: how near it was to its own ceiling."""

from __future__ import annotations

from collections import Counter

from penstock import units
from penstock.lab import analysis
from penstock.lab.records import Run, Sample
from penstock.lab.report.document import Section, Table

BUSY_SHARE = 0.8
"""Of its own ceiling: above, the generator and not the store may be what was measured."""


def sections(run: Run) -> list[Section]:
    """Nothing for a workload that has no generator."""
    return [*_errors(run), *_generator(run)]


def _errors(run: Run) -> list[Section]:
    counts: dict[str, Counter[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for sample in analysis.counted(run, "errors"):
        name = str(sample["name"])
        counts.setdefault(name, Counter()).update(sample["errors"])
        for kind, text in (sample.get("first") or {}).items():
            first.setdefault((name, kind), str(text))
    rows = [
        (name, kind, units.count(many), f"✗ {first.get((name, kind), '')}".rstrip())
        for name, kinds in counts.items()
        for kind, many in kinds.most_common()
    ]
    if not rows:
        return []
    columns = ("operation", "error", "times", "the first")
    note = "Requests that failed are in no throughput and in no latency."
    return [Section("Errors", note, [Table(columns, rows, numeric=frozenset({2}))], brief=True)]


def _generator(run: Run) -> list[Section]:
    shares: dict[str, list[float]] = {}
    for sample in analysis.counted(run, "measure"):
        if sample.get("of_ceiling") is not None:
            shares.setdefault(str(sample["name"]), []).append(float(sample["of_ceiling"]))
    spent = [
        sample["core_seconds"] / sample["operations"] * 1e6
        for sample in analysis.counted(run, "generator")
        if sample["operations"]
    ]
    if not shares:
        return []
    ceilings = {str(sample["name"]): sample for sample in run.of_kind("ceiling")}
    rows = []
    for name, found in shares.items():
        share = analysis.spread(found).median
        verdict = "✗ the generator may be the limit" if share > BUSY_SHARE else "✓"
        rows.append((name, *_ceiling(ceilings.get(name)), f"{share * 100:.0f} %", verdict))
    note = "The generator's own ceiling was measured against a store that does nothing."
    if spent:
        note += f" It took {units.count(analysis.spread(spent).median)} µs of a core per request."
    columns = ("operation", "ceiling, operations/s", "ceiling", "reached of it", "limited by the store")
    return [Section("The generator", note, [Table(columns, rows, numeric=frozenset({1, 2, 3}))], brief=True)]


def _ceiling(sample: Sample | None) -> tuple[str, str]:
    """What the generator did by itself, in operations and in bytes per second."""
    if sample is None:
        return "", ""
    moved = float(sample["bytes_per_second"])
    return units.count(float(sample["operations_per_second"])), units.rate(moved) if moved else ""
