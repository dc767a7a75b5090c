"""Spark: a driver and executors, with the settings of profile, lake, catalog and user."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.engines.contract import Access, QueryEngine
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake
from penstock.model import SPARK_ENGINE, SPARK_INTERNAL, ApplicationSpec, ClusterSize
from penstock.profiles.layers import Layer, Resolved, resolve
from penstock.profiles.variants import without_s3
from penstock.profiles.workloads import split_profile
from penstock.runtime import jvm

HIVE_SITE = "hive-site.xml"


class Spark(QueryEngine):
    name = SPARK_ENGINE
    title = "Spark"
    program = SPARK_INTERNAL
    main_class = "io.penstock.sql.SqlRunner"
    profile = "sql"

    def usual_size(self, usual: ClusterSize) -> ClusterSize:
        return usual

    def require_installed(self) -> None:
        jvm.find_java()

    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:  # noqa: ARG002 - any backend has Spark
        self.require_installed()

    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        lake = access.lake
        return Launch(
            application_id=application_id,
            spec=spec,
            settings=resolved(spec, lake).values(),
            environment={**spec.environment, **lake_settings.environment(lake)},
            private_files={
                **lake_settings.private_files(lake, access.credentials),
                HIVE_SITE: access.metastore.hive_site(),
            },
            authorities=None if lake.ca_file is None else lake_settings.AUTHORITIES_FILE,
            lake=lake,
        )


def resolved(spec: ApplicationSpec, lake: Lake) -> Resolved:
    """All settings with their origin: base < store < skipping < workload < lake < catalog < variants < user."""
    workload, variants = split_profile(spec.profile)
    layers = (
        *(workload if lake.is_s3 else without_s3(workload)),
        Layer.of("lake", _lake(lake), reason=f"the lake “{lake.name}”", source="penstock lake"),
        Layer.of(
            "catalog", _catalog(lake), reason="one catalog of tables for all clusters", source="docs/guide/catalog.md"
        ),
        *variants,
    )
    return resolve(layers, spec.size, spec.settings)


def _lake(lake: Lake) -> Mapping[str, str]:
    history = {"spark.penstock.skipping.history": f"{lake.root}/penstock/history"}
    return {**lake_settings.spark_settings(lake), **lake_settings.gateway_settings(lake), **history}


def _catalog(lake: Lake) -> Mapping[str, str]:
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{lake.root}/warehouse",
    }
