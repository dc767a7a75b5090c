"""What a run of TPC-DS streams says: how much longer it takes in company."""

from __future__ import annotations

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import ALONE, TOGETHER, Measure, Ratio
from penstock.lab.records import Run
from penstock.lab.report import again, checks, resources, surroundings, tpcds, users
from penstock.lab.report.document import Document, KeyFigure, Section
from penstock.lab.report.titles import title


def document(run: Run) -> Document:
    found = analysis.measured(run)
    single, crowd = found.get("1 user"), found.get(f"{run.description.options['users']} users")
    slower = analysis.ratio("elapsed", single.seconds, crowd.seconds) if single and crowd else None
    failed = sorted(analysis.failed_queries(run), key=analysis.natural)
    sections = [
        *differences(run),
        *checks.failed_repetitions(run),
        *users.sections(run),
        *users.timeline(run),
        *resources.sections(run),
        *surroundings.sections(run),
    ]
    if manifests := run.of_kind("dataset"):
        sections.append(tpcds.dataset(manifests[-1]["manifest"]))
    sections.append(again.section([run.description]))
    return Document(
        kicker=f"Penstock lab · {title(run.description)} · {run.description.arm}",
        headline=f"{trouble(run, failed)}{_took(run, crowd, slower)}{checked(run)}.",
        good=run.outcome == "ok",
        key_figures=_key_figures(run, single, crowd, slower),
        sections=sections,
        data=_data(run, single, crowd, slower),
    )


def differences(run: Run) -> list[Section]:
    wrong = any(verdict != "equal" for verdict in analysis.answer_verdicts(run).values())
    return [tpcds.differences(run)] if wrong else []


def trouble(run: Run, failed: list[str]) -> str:
    """What must be said before any time is; empty where all is well."""
    verdicts = analysis.answer_verdicts(run)
    if different := sorted((name for name, v in verdicts.items() if v != "equal"), key=analysis.natural):
        return f"{units.plural(len(different), 'query has', 'queries have')} a wrong answer: {units.some(different)}. "
    if failed:
        return f"{units.plural(len(failed), 'query', 'queries')} failed for somebody: {units.some(failed)}. "
    if broken := analysis.repetitions(run).failed:
        return f"{units.plural(broken, 'repetition')} failed. "
    return "Unfinished. " if run.outcome == "unfinished" else ""


def checked(run: Run) -> str:
    verdicts = analysis.answer_verdicts(run).values()
    if not verdicts:
        return "; no answer was checked"
    return "; every answer of everyone is right" if all(verdict == "equal" for verdict in verdicts) else ""


def _took(run: Run, crowd: Measure | None, slower: Ratio | None) -> str:
    count = run.description.options["users"]
    if crowd is None:
        return f"{count} users at once have no time: not all of their queries succeeded"
    took = units.seconds(crowd.median)
    if slower is None:
        return f"{count} users at once took {took}"
    noise = " (inside the noise)" if slower.verdict == "inside the noise" else ""
    alone = units.seconds(slower.baseline.median)
    return f"{count} users at once took {units.number(slower.ratio)}× the time of one alone{noise}: {took}, not {alone}"


def _key_figures(run: Run, single: Measure | None, crowd: Measure | None, slower: Ratio | None) -> list[KeyFigure]:
    figures = []
    each = len(run.description.options["queries"])
    count = run.description.options["users"]
    if slower:
        known = slower.interval
        sure = f"{units.number(known.low)}–{units.number(known.high)}" if known else "one repetition"
        figures.append(KeyFigure("Slow-down", f"{units.number(slower.ratio)}×", sure))
    for label, measure, asked in ((f"{count} users", crowd, count * each), ("One user alone", single, each)):
        if measure:
            per_hour = asked / measure.median * 3600
            queries = units.plural(asked, "query", "queries")
            figures.append(KeyFigure(label, units.seconds(measure.median), queries))
            figures.append(KeyFigure("Queries per hour", units.count(per_hour), label))
    verdicts = run.of_kind("answer")
    if verdicts:
        right = sum(sample["verdict"] == "equal" for sample in verdicts)
        figures.append(KeyFigure("Right answers", f"{right} of {len(verdicts)}", "different ones, checked with DuckDB"))
    return figures


def _data(run: Run, single: Measure | None, crowd: Measure | None, slower: Ratio | None) -> dict[str, object]:
    return {
        "users": run.description.options["users"],
        "seconds": {"alone": single.seconds if single else [], "together": crowd.seconds if crowd else []},
        "slow_down": slower.ratio if slower else None,
        "queries": {
            phase: {
                name: [{"user": one.user, "seconds": one.seconds} for one in found]
                for name, found in analysis.by_query(analysis.executions(run, phase)).items()
            }
            for phase in (ALONE, TOGETHER)
        },
        "slow_downs": {part.name: part.ratio for part in analysis.slow_downs(run)},
        "answers": dict(analysis.answer_verdicts(run)),
    }
