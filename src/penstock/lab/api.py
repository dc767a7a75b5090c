"""The lab's runs in a home, for the service to list and show."""

from __future__ import annotations

from typing import Any

from penstock import extras
from penstock.home import Home
from penstock.lab import records


class LabReports:
    """`penstock.service.context.Reports`, over the runs recorded below a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each run, newest first."""
        return [{**run, "id": run["run"]} for run in reversed(records.list_runs(self._home))]

    def page(self, run_id: str) -> str:
        """Return the run's report as self-contained HTML.

        Raises `NotFound`, and `MissingRequirement` without `penstock[lab]`.
        """
        extras.require("lab")
        # Plotting takes a second to load.
        from penstock.lab.report.report import as_html

        return as_html([records.find(self._home, run_id)])
