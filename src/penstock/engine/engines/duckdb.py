"""DuckDB: one process of the driver's size, for questions about the lake's tables that need no cluster."""

from __future__ import annotations

import json
import sys

from penstock import extras
from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.engines.contract import Access, QueryEngine
from penstock.errors import InvalidInput
from penstock.lake import settings as lake_settings
from penstock.lake.model import require_s3
from penstock.model import DUCKDB_INTERNAL, ApplicationSpec, ClusterSize

ACCESS_FILE = "duckdb.json"
"""The private file with the driver's access: size, lake and catalog."""

_DRIVER = "penstock.engine.engines.duckdb_driver"
_PLACES = ("{cluster}", "{artifacts}")


class DuckDb(QueryEngine):
    name = "duckdb"
    title = "DuckDB"
    program = DUCKDB_INTERNAL
    has_executors = False

    def usual_size(self, usual: ClusterSize) -> ClusterSize:
        """The driver alone, with the cores and memory that a Spark cluster's executor has."""
        return ClusterSize(driver=usual.executor, executor=usual.executor, executors=0)

    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:
        if not backend.shares_files:
            raise InvalidInput(
                "DuckDB cannot run here",
                why=f"it runs on the machine of the engine, and the cluster is {backend.name}",
                fix="use --engine spark",
            )
        if spec.size.executors:
            raise InvalidInput(
                "DuckDB has no executors",
                why="it runs in one process, of the driver's size",
                fix="omit --executors; --driver-cores and --driver-memory size the process",
            )
        if foreign := [*spec.settings, *spec.jars, *spec.files, *spec.python_files, *filter(None, [spec.main_class])]:
            raise InvalidInput(
                f"DuckDB has no use for {foreign[0]}",
                why="settings, classes and files are for Spark",
                fix="omit it, or use --engine spark",
            )
        extras.require("duckdb")

    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        lake = access.lake
        require_s3(lake, "DuckDB")
        size = spec.size.driver
        content = {
            "cores": size.cores,
            "memory_bytes": size.memory_bytes,
            "lake": lake.to_json(),
            "metastore": access.metastore.url().sqlalchemy().render_as_string(hide_password=False),
        }
        return Launch(
            application_id=application_id,
            spec=spec,
            settings={},
            environment={**spec.environment, **lake_settings.environment(lake)},
            private_files={
                **lake_settings.private_files(lake, access.credentials),
                ACCESS_FILE: json.dumps(content),
            },
            program=(sys.executable, "-I", "-m", _DRIVER, f"{{private}}/{ACCESS_FILE}", *_PLACES, *spec.arguments),
        )
