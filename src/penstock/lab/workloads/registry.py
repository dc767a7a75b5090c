"""The workloads by name. A suite is imported on its first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from penstock.errors import InvalidInput
from penstock.lab.workloads.base import Suite

_SUITES = {
    "blocks": "blocks:Blocks",
    "dfsio": "throughput:Dfsio",
    "enrichment": "pipelines:Enrichment",
    "etl": "pipelines:Etl",
    "gateways": "throughput:Gateways",
    "ingest": "throughput:Ingest",
    "kmeans": "pipelines:KMeans",
    "mixed": "concurrency:Mixed",
    "objects": "objects:Objects",
    "reads": "overhead:Reads",
    "streams": "concurrency:Streams",
    "terasort": "sort:TeraSort",
    "tpcds": "tpcds:Tpcds",
}

NAMES = tuple(_SUITES)


def suite_class(workload: str) -> type[Suite]:
    """Import a workload's suite. Raises `InvalidInput` with the known names."""
    if workload not in _SUITES:
        raise InvalidInput(f"There is no workload {workload}", fix=f"choose one of {', '.join(NAMES)}")
    module, _, name = _SUITES[workload].partition(":")
    found: type[Suite] = getattr(importlib.import_module(f"penstock.lab.workloads.{module}"), name)
    return found


def restored(workload: str, options: Mapping[str, Any]) -> Suite:
    """Restore the suite of a recorded run."""
    as_tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return suite_class(workload)(**as_tuples)
