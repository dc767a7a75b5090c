"""The document for a set of runs, as HTML, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from penstock.errors import InvalidInput
from penstock.lab.analysis import cost
from penstock.lab.analysis.doubts import doubts
from penstock.lab.analysis.samples import measures_by_name, repetitions
from penstock.lab.records import Run
from penstock.lab.report import comparison, concurrency, measures, queries, scaling, startup, stores
from penstock.lab.report.elements import checks, render
from penstock.lab.report.elements.render import Document

_OWN: dict[str, Callable[[Run], Document]] = {
    "mixed": concurrency.mixed_document,
    "streams": concurrency.streams_document,
    "tpcds": queries.document,
}
"""Workloads with a document of their own; `measures` has the document of all others."""


def document(runs: Sequence[Run]) -> Document:
    """Choose the document of these runs.

    One run has a report of its own. Several runs of one workload are compared with the first, or form a curve where
    only their sizes differ; those of the start-up benchmark stand side by side. With several workloads the arms are
    compared as stores. Raises `InvalidInput` where the runs do not belong together.
    """
    workloads = {run.description.workload for run in runs}
    if len(workloads) != 1:
        return _stores(runs)
    (workload,) = workloads
    if workload == "startup":
        return startup.document(runs)
    if len(runs) == 1:
        return _OWN.get(workload, measures.document)(runs[0])
    failed = [run for run in runs if not measures_by_name(run) and repetitions(run).failed]
    if failed:
        done = [run for run in runs if run not in failed]
        return _without(document(done or runs[:1]), failed if done else runs[1:], runs)
    try:
        if len(runs) > 2 and cost.differ_in_size_alone(runs):
            return scaling.document(runs)
        return comparison.document(runs)
    except ValueError as error:
        raise InvalidInput(
            "These runs cannot be compared", why=str(error), fix="choose runs of the same measures: penstock lab runs"
        ) from error


def _without(found: Document, failed: Sequence[Run], runs: Sequence[Run]) -> Document:
    """Add the failures of the runs that the document leaves out, and the doubts about all runs."""
    names = [run.description.arm for run in failed]
    return replace(found, doubts=doubts(runs), sections=[*checks.failures(failed, names), *found.sections])


def _stores(runs: Sequence[Run]) -> Document:
    try:
        return stores.document(runs)
    except ValueError as error:
        workloads = sorted({run.description.workload for run in runs})
        raise InvalidInput(
            f"These runs measured different things: {', '.join(workloads)}",
            why=f"nor can they be compared as stores: {error}",
            fix="choose runs of one workload, or of several workloads on the same arms: penstock lab runs",
        ) from error


def as_html(runs: Sequence[Run]) -> str:
    return write(document(runs), runs, "html")


def as_markdown(runs: Sequence[Run]) -> str:
    return write(document(runs), runs, "md")


def as_json(runs: Sequence[Run]) -> str:
    return write(document(runs), runs, "json")


FORMS: dict[str, Callable[[Sequence[Run]], str]] = {"html": as_html, "md": as_markdown, "json": as_json}


def write(found: Document, runs: Sequence[Run], form: str) -> str:
    """Write the document of these runs in one of `FORMS`."""
    if form == "html":
        return render.render_html(found)
    if form == "md":
        return render.render_markdown(found)
    described = [asdict(run.description) for run in runs]
    value = {
        "headline": found.headline,
        "good": found.good,
        "doubts": [asdict(doubt) for doubt in found.doubts],
        "runs": described,
        **found.data,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
