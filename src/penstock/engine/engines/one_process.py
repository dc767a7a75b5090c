"""Engines that answer SQL statements in a program of the driver's size, without a cluster: DuckDB, Sail and Trino."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any, ClassVar

from penstock import extras
from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.engines.contract import Access, QueryEngine
from penstock.engine.engines.trino import installation
from penstock.errors import InvalidInput
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake, artifact_prefix, require_s3
from penstock.model import DUCKDB_INTERNAL, SAIL_INTERNAL, TRINO_INTERNAL, ApplicationSpec, ClusterSize

ACCESS_FILE = "access.json"
"""The private file with the driver's access: size, lake and catalog."""

_PLACES = ("{cluster}", "{artifacts}")


class OneProcess(QueryEngine):
    """An engine of one Python process, whose program is a `statement_driver`."""

    has_executors = False
    driver: ClassVar[str]
    """The module of the driver of statements."""
    script_driver: ClassVar[str | None] = None
    """The module of the driver of Python files; None where the engine runs none."""
    extra: ClassVar[str]
    """The extra of the package that brings the engine."""

    def usual_size(self, usual: ClusterSize) -> ClusterSize:
        """The driver alone, with the cores and memory that a Spark cluster's executor has."""
        return ClusterSize(driver=usual.executor, executor=usual.executor, executors=0)

    def require_installed(self) -> None:
        extras.require(self.extra)

    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:
        if spec.application != self.program and (self.script_driver is None or not spec.is_python):
            answers = "SQL statements" if self.script_driver is None else "SQL statements and Python files"
            raise InvalidInput(
                f"{self.title} cannot run {spec.application}",
                why=f"it answers {answers} alone",
                fix="use --engine spark",
            )
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
        modules = spec.python_files if spec.application == self.program else ()
        if foreign := [*spec.settings, *spec.jars, *spec.files, *modules, *filter(None, [spec.main_class])]:
            raise InvalidInput(
                f"{self.title} has no use for {foreign[0]}",
                why="settings, classes and files are for Spark",
                fix="omit it, or use --engine spark",
            )
        self.require_installed()

    def require_readable(self, lake: Lake) -> None:
        """Raise `InvalidInput` for a lake that the engine cannot read."""
        require_s3(lake, self.title)

    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        lake, size = access.lake, spec.size.driver
        self.require_readable(lake)
        content: dict[str, Any] = {
            "cores": size.cores,
            "memory_bytes": size.memory_bytes,
            "lake": lake.to_json(),
            "metastore": access.metastore.url().sqlalchemy().render_as_string(hide_password=False),
        }
        driver, arguments = self.driver, spec.arguments
        if self.script_driver is not None and spec.application != self.program:
            # Not in the command, whose places in braces a user's arguments may name by chance.
            content["script"] = {
                "file": spec.application,
                "python_files": spec.python_files,
                "arguments": spec.arguments,
                "tables": f"{lake.root}/{artifact_prefix(application_id)}tables",
            }
            driver, arguments = self.script_driver, ()
        return Launch(
            application_id=application_id,
            spec=spec,
            settings={},
            environment={**spec.environment, **lake_settings.environment(lake)},
            private_files={
                **lake_settings.private_files(lake, access.credentials),
                ACCESS_FILE: json.dumps(content),
            },
            program=(sys.executable, "-I", "-m", driver, f"{{private}}/{ACCESS_FILE}", *_PLACES, *arguments),
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
    script_driver = "penstock.engine.engines.sail.scripts"
    extra = "sail"


class Trino(OneProcess):
    """Trino's server, a JVM below the program. `penstock engines install trino` downloads it."""

    name = "trino"
    title = "Trino"
    program = TRINO_INTERNAL
    driver = "penstock.engine.engines.trino.driver"
    extra = "trino"

    def require_installed(self) -> None:
        super().require_installed()
        installation.require_installed()

    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:
        if spec.size.driver.memory_bytes < _LEAST_TRINO_BYTES:
            raise InvalidInput(
                "Trino needs more memory",
                why=f"its server alone takes a gigabyte, and the driver has {spec.size.driver.memory_bytes >> 20} MiB",
                fix=f"--driver-memory {_LEAST_TRINO_BYTES >> 30}g, or more",
            )
        super().check(spec, backend)

    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        plan = super().launch(application_id, spec, access)
        place = {installation.DIRECTORY_VARIABLE: str(installation.directory())}
        return replace(plan, environment={**plan.environment, **place})


_LEAST_TRINO_BYTES = 2 << 30
