"""Engines that answer SQL statements in one process of the driver's size, without a cluster: DuckDB and Sail."""

from __future__ import annotations

import json
import sys
from typing import ClassVar

from penstock import extras
from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.engines.contract import Access, QueryEngine
from penstock.errors import InvalidInput
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake, require_s3
from penstock.model import DUCKDB_INTERNAL, SAIL_INTERNAL, ApplicationSpec, ClusterSize

ACCESS_FILE = "access.json"
"""The private file with the driver's access: size, lake and catalog."""

_PLACES = ("{cluster}", "{artifacts}")


class OneProcess(QueryEngine):
    """An engine of one Python process, whose program is a `statement_driver`."""

    has_executors = False
    driver: ClassVar[str]
    """The module of the driver."""
    extra: ClassVar[str]
    """The extra of the package that brings the engine."""

    def usual_size(self, usual: ClusterSize) -> ClusterSize:
        """The driver alone, with the cores and memory that a Spark cluster's executor has."""
        return ClusterSize(driver=usual.executor, executor=usual.executor, executors=0)

    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:
        if not backend.shares_files:
            raise InvalidInput(
                f"{self.title} cannot run here",
                why=f"it runs on the machine of the engine, and the cluster is {backend.name}",
                fix="use --engine spark",
            )
        if spec.size.executors:
            raise InvalidInput(
                f"{self.title} has no executors",
                why="it runs in one process, of the driver's size",
                fix="omit --executors; --driver-cores and --driver-memory size the process",
            )
        if foreign := [*spec.settings, *spec.jars, *spec.files, *spec.python_files, *filter(None, [spec.main_class])]:
            raise InvalidInput(
                f"{self.title} has no use for {foreign[0]}",
                why="settings, classes and files are for Spark",
                fix="omit it, or use --engine spark",
            )
        extras.require(self.extra)

    def require_readable(self, lake: Lake) -> None:
        """Raise `InvalidInput` for a lake that the engine cannot read."""
        require_s3(lake, self.title)

    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        lake, size = access.lake, spec.size.driver
        self.require_readable(lake)
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
            program=(sys.executable, "-I", "-m", self.driver, f"{{private}}/{ACCESS_FILE}", *_PLACES, *spec.arguments),
        )


class DuckDb(OneProcess):
    name = "duckdb"
    title = "DuckDB"
    program = DUCKDB_INTERNAL
    driver = "penstock.engine.engines.duckdb.driver"
    extra = "duckdb"


class Sail(OneProcess):
    """Sail answers Spark's SQL, without a JVM."""

    name = "sail"
    title = "Sail"
    program = SAIL_INTERNAL
    driver = "penstock.engine.engines.sail.driver"
    extra = "sail"

    def require_readable(self, lake: Lake) -> None:
        super().require_readable(lake)
        if lake.ca_file is not None:
            raise InvalidInput(
                f"Sail cannot read the lake “{lake.name}”",
                why="it trusts the machine's certificate authorities alone, and the lake has one of its own",
                fix="use --engine spark or duckdb",
            )
