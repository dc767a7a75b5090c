"""What was validated and what failed: said before any time is."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.records import Run, Sample
from penstock.lab.report.document import Section, Table

_SHOWN = 12
"""More rows than a screen's worth are folded away: all of them are right, or they were listed before."""


def wrong(run: Run) -> list[Section]:
    found = analysis.wrong_checks(run)
    if not found:
        return []
    rows = [(_when(sample), str(sample["name"]), f"✗ {sample.get('note') or 'wrong'}") for sample in found]
    return [Section("Checks that are wrong", "", [Table(("repetition", "check", "found"), rows)], brief=True)]


def failed_repetitions(run: Run) -> list[Section]:
    errors = analysis.repetitions(run).errors
    if not errors:
        return []
    rows = [(str(repetition), f"✗ {error}") for repetition, error in sorted(errors.items())]
    return [
        Section(
            "Repetitions that failed",
            "They are part of no median.",
            [Table(("repetition", "why"), rows)],
            brief=True,
        )
    ]


def failures(runs: Sequence[Run], names: Sequence[str]) -> list[Section]:
    """Of several runs: which repetitions failed of what, each reason once."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        errors = analysis.repetitions(run).errors
        for error in dict.fromkeys(errors.values()):
            which = [str(repetition) for repetition, why in sorted(errors.items()) if why == error]
            rows.append((name, ", ".join(which), f"✗ {error}"))
    if not rows:
        return []
    return [
        Section(
            "What failed",
            "Repetitions that failed are part of no median.",
            [Table(("run", "repetitions", "why"), rows)],
            brief=True,
        )
    ]


def section(run: Run) -> list[Section]:
    """A row per check: how often it was made, how often it was right, and what it last said."""
    found: dict[str, list[Sample]] = {}
    for sample in analysis.checks(run):
        found.setdefault(str(sample["name"]), []).append(sample)
    if not found:
        return []
    rows = []
    for name, samples in found.items():
        right = sum(bool(sample["right"]) for sample in samples)
        verdict = "✓" if right == len(samples) else f"✗ {len(samples) - right} wrong"
        rows.append((name, units.count(len(samples)), verdict, str(samples[-1].get("note") or "")))
    folded = units.plural(len(rows), "check") if len(rows) > _SHOWN else ""
    table = Table(("check", "times", "right", "what it found last"), rows, numeric=frozenset({1}), folded=folded)
    return [Section("Checks", "", [table])]


def doubts(runs: Sequence[Run], names: Sequence[str]) -> str:
    """A sentence for each run whose times are not to be trusted as they stand; empty where there is none."""
    found = []
    for run, name in zip(runs, names, strict=True):
        if not analysis.all_right(run):
            found.append(f"Results of {name} are wrong. ")
        elif failed := analysis.repetitions(run).failed:
            found.append(f"{units.plural(failed, 'repetition')} of {name} failed. ")
    return "".join(found)


def unfinished(runs: Sequence[Run]) -> str:
    """A word before any figure where more of it may come; empty where all runs came to their end."""
    return "Unfinished. " if any(run.outcome == "unfinished" for run in runs) else ""


def _when(sample: Sample) -> str:
    repetition = sample.get("repetition")
    return "preparation" if repetition is None else "warm-up" if analysis.warm_up(sample) else str(repetition)
