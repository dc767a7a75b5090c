"""Which document fits which runs, and in which forms it can be had."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from penstock.errors import InvalidInput
from penstock.lab.records import Run
from penstock.lab.report import comparison, html, markdown, starts, tpcds
from penstock.lab.report.document import Document

_SINGLE: dict[str, Callable[[Run], Document]] = {"tpcds": tpcds.document}


def document(runs: Sequence[Run]) -> Document:
    """One run: its own report. Several runs of the start-up benchmark, or two of anything: a comparison.

    The first of two is the baseline. Raises `InvalidInput` where the runs do not go together.
    """
    workloads = {run.description.workload for run in runs}
    if len(workloads) != 1:
        raise InvalidInput(
            f"These runs measured different things: {', '.join(sorted(workloads))}",
            fix="give runs of one workload; list them: penstock lab runs",
        )
    (workload,) = workloads
    if workload == "startup":
        return starts.document(runs)
    if len(runs) == 1:
        return _SINGLE[workload](runs[0])
    if len(runs) > 2:
        raise InvalidInput("A comparison has two sides", fix="penstock lab compare BASELINE CANDIDATE")
    try:
        return comparison.document(runs[0], runs[1])
    except ValueError as error:
        raise InvalidInput(
            "These runs cannot be compared", why=str(error), fix="measure the same queries twice"
        ) from error


def as_html(runs: Sequence[Run]) -> str:
    return html.render(document(runs))


def as_markdown(runs: Sequence[Run]) -> str:
    return markdown.render(document(runs))


def as_json(runs: Sequence[Run]) -> str:
    found = document(runs)
    described = [asdict(run.description) for run in runs]
    value = {"headline": found.headline, "good": found.good, "runs": described, **found.data}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


FORMS: dict[str, Callable[[Sequence[Run]], str]] = {"html": as_html, "md": as_markdown, "json": as_json}
