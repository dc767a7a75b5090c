"""The final settings of one application: profiles, lake, catalog and user made one; secrets kept apart. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.clusters.base import Launch
from penstock.engine.application import ApplicationSpec
from penstock.lake import settings as lake_settings
from penstock.lake.base import Credentials, Lake
from penstock.lake.leases import Lease
from penstock.profiles import hdfs
from penstock.profiles.catalogue import parted
from penstock.profiles.layers import Resolved, resolve
from penstock.profiles.setting import Layer

HIVE_SITE = "hive-site.xml"


def resolved(spec: ApplicationSpec, lake: Lake) -> Resolved:
    """Every setting with where it came from: base < store < skipping < workload < lake < catalog < variants < user."""
    workload, variants = parted(spec.profile)
    layers = (
        *(workload if lake.is_s3 else hdfs.without_s3(workload)),
        Layer.of("lake", _lake(lake), reason=f"the lake “{lake.name}”", source="penstock lake"),
        Layer.of(
            "catalog", _catalog(lake), reason="one catalog of tables for all clusters", source="docs/guide/catalog.md"
        ),
        *variants,
    )
    return resolve(layers, spec.size, spec.settings)


def launch(
    application_id: str, spec: ApplicationSpec, lake: Lake, *, credentials: Credentials | Lease | None, hive_site: str
) -> Launch:
    """All the backend needs. Secrets are in `private_files` only. Raises `InvalidInput` where the lake's `ca_file` is
    none."""
    return Launch(
        application_id=application_id,
        spec=spec,
        settings=resolved(spec, lake).values(),
        environment={**spec.environment, **lake_settings.environment(lake)},
        private_files={**lake_settings.private_files(lake, credentials), HIVE_SITE: hive_site},
        authorities=None if lake.ca_file is None else lake_settings.AUTHORITIES_FILE,
        lake=lake,
    )


def _lake(lake: Lake) -> Mapping[str, str]:
    history = {"spark.penstock.skipping.history": f"{lake.root}/penstock/history"}
    return {**lake_settings.spark_settings(lake), **lake_settings.gateway_settings(lake), **history}


def _catalog(lake: Lake) -> Mapping[str, str]:
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{lake.root}/warehouse",
    }
