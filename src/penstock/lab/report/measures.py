"""What a run of any workload says that consists of timed work, validations and what both cost."""

from __future__ import annotations

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import Measure
from penstock.lab.records import Run
from penstock.lab.report import again, checks, flow, load, resources, surroundings, work
from penstock.lab.report.document import Document, KeyFigure
from penstock.lab.report.titles import title

_PROMINENT = 4
"""So many measures are told one by one; of more, the longest."""


def document(run: Run) -> Document:
    found = list(analysis.measured(run).values())
    repetitions = analysis.repetitions(run)
    per_gb = {measure.name: analysis.core_seconds_per_gb(run, measure) for measure in found}
    return Document(
        kicker=f"Penstock lab · {title(run.description)} · {run.description.arm}",
        headline=_headline(run, found),
        good=analysis.all_right(run) and not repetitions.failed and run.outcome in ("ok", "unfinished"),
        key_figures=_key_figures(run, found),
        sections=[
            *checks.wrong(run),
            *checks.failed_repetitions(run),
            *work.sections(found, analysis.cores(run), per_gb),
            *flow.over_time(analysis.seconds(run)),
            *flow.latency(analysis.latencies(run)),
            *checks.section(run),
            *load.sections(run),
            *resources.sections(run),
            *surroundings.sections(run),
            again.section([run.description]),
        ],
        data=_data(run, found),
    )


def _headline(run: Run, found: list[Measure]) -> str:
    cores = analysis.cores(run)
    where = f" on {units.plural(cores, 'core')}" if cores else ""
    sentence = f"{units.capitalised(title(run.description))}{where}: {_did(found)}"
    repetitions = analysis.repetitions(run)
    if wrong := analysis.wrong_checks(run):
        names = list(dict.fromkeys(str(sample["name"]) for sample in wrong))
        return f"{units.plural(len(wrong), 'check is', 'checks are')} wrong: {units.some(names)}. {sentence}."
    if repetitions.failed:
        whole = repetitions.succeeded + repetitions.failed
        return f"{repetitions.failed} of {units.plural(whole, 'repetition')} failed. {sentence}."
    if run.outcome == "unfinished":
        return f"Unfinished. {sentence}."
    if run.outcome != "ok":
        return f"It ended as “{run.outcome}”. {sentence}."
    made = analysis.verdicts(run).made
    if not made:
        return f"{sentence}; nothing was checked."
    all_of_them = {1: "the check is", 2: "both checks are"}.get(made, f"all {units.count(made)} checks are")
    return f"{sentence}; {all_of_them} right."


def _did(found: list[Measure]) -> str:
    if not found:
        return "nothing was measured"
    if curves := work.by_clients(found):
        reached = []
        for name, curve in curves.items():
            best = max(curve.values(), key=work.throughput)
            reached.append(f"{name} reaches {work.achieved(best)} with {units.plural(best.clients or 0, 'client')}")
        return units.some(reached, _PROMINENT)
    if len(found) > _PROMINENT:
        longest = max(found, key=lambda measure: measure.median)
        whole = sum(measure.median for measure in found)
        return f"{len(found)} measures in {units.seconds(whole)}, the longest {longest.name} {work.told(longest)}"
    return ", ".join(f"{measure.name}{' at' if measure.fixed_time else ''} {work.told(measure)}" for measure in found)


def _key_figures(run: Run, found: list[Measure]) -> list[KeyFigure]:
    figures = [work.key_figure(measure) for measure in _prominent(found)]
    if main := analysis.main_measure(run, found):
        figures += _price(run, main)
    if (cores := analysis.core_seconds(run)) is not None:
        figures.append(KeyFigure("Core-seconds", units.number(cores), "drivers and executors, per repetition"))
    if store := analysis.usage(run, "store_core_seconds"):
        median = analysis.spread(store).median
        figures.append(KeyFigure("Core-seconds of the store", units.number(median), "per repetition"))
    if (peak := analysis.peak_memory(run)) is not None:
        figures.append(KeyFigure("Peak memory", units.size(peak), "driver and executors"))
    if (verdicts := analysis.verdicts(run)).made:
        figures.append(KeyFigure("Checks right", f"{verdicts.right} of {verdicts.made}"))
    return figures


def _prominent(found: list[Measure]) -> list[Measure]:
    if curves := work.by_clients(found):
        return [max(curve.values(), key=work.throughput) for curve in curves.values()][:_PROMINENT]
    longest = sorted(found, key=lambda measure: -measure.median)[:_PROMINENT]
    return [measure for measure in found if measure in longest]


def _price(run: Run, main: Measure) -> list[KeyFigure]:
    figures = []
    if cores := main.cores or analysis.cores(run):
        rate = analysis.gb_per_core_hour(main.bytes, main.median, cores)
        figures.append(KeyFigure("GB per core and hour", units.number(rate), main.name))
    if (own := analysis.core_seconds_per_gb(run, main)) is not None:
        figures.append(KeyFigure("Core-seconds per GB", units.number(own), main.name))
    elif (whole := analysis.core_seconds(run)) is not None:
        per_gb = whole / main.bytes * analysis.GB
        figures.append(KeyFigure("Core-seconds per GB", units.number(per_gb), f"all applications, GB of {main.name}"))
    return figures


def _data(run: Run, found: list[Measure]) -> dict[str, object]:
    repetitions, wrong = analysis.repetitions(run), analysis.wrong_checks(run)
    return {
        "measures": {
            measure.name: {
                "seconds": measure.seconds,
                "bytes": measure.bytes,
                "operations": measure.operations,
                "rows": measure.rows,
                "clients": measure.clients,
                "core_seconds_per_gb": analysis.core_seconds_per_gb(run, measure),
            }
            for measure in found
        },
        "checks": {"right": len(analysis.checks(run)) - len(wrong), "wrong": [dict(sample) for sample in wrong]},
        "repetitions": {"succeeded": repetitions.succeeded, "failed": dict(repetitions.errors)},
        "latency_seconds": [
            {
                "name": line.name,
                "phase": line.phase,
                "requests": line.count,
                "above_and_at_most": {f"{p.percent:g}": [p.above, p.value] for p in line.percentiles},
            }
            for line in analysis.latencies(run)
        ],
    }
