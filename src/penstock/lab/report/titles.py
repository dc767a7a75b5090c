"""What a workload is called in a sentence."""

from __future__ import annotations

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.records import Description
from penstock.lab.suites import registry


def title(description: Description) -> str:
    """With its scale factor, where the benchmark has one. A workload of another release keeps the name it has."""
    scale = f", scale {units.number(description.scale)}" if description.scale else ""
    return f"{_workload(description.workload)}{scale}"


def _workload(name: str) -> str:
    if name == "startup":
        return "start-up"
    try:
        return registry.suite_class(name).title
    except InvalidInput:
        return name
