"""The final settings of one application: profiles, lake, catalog and user made one; secrets kept apart. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.clusters.base import Launch
from penstock.engine.application import ApplicationSpec
from penstock.lake import settings as lake_settings
from penstock.lake.base import Credentials, Lake
from penstock.profiles.catalogue import parted
from penstock.profiles.layers import Resolved, resolve
from penstock.profiles.setting import Layer

HIVE_SITE = "hive-site.xml"


def resolved(spec: ApplicationSpec, lake: Lake) -> Resolved:
    """Every setting with where it came from: base < store < skipping < workload < lake < catalog < variants < user."""
    workload, variants = parted(spec.profile)
    layers = (
        *workload,
        Layer.of("lake", _lake(lake), reason=f"the lake “{lake.name}”", source="penstock lake"),
        Layer.of("catalog", _catalog(lake), reason="one catalog of tables for all clusters", source="docs/why.md"),
        *variants,
    )
    return resolve(layers, spec.size, spec.settings)


def launch(
    application_id: str, spec: ApplicationSpec, lake: Lake, *, credentials: Credentials, hive_site: str
) -> Launch:
    """All the backend needs. Secrets are in `private_files` only."""
    return Launch(
        application_id=application_id,
        spec=spec,
        settings=resolved(spec, lake).values(),
        environment={**spec.environment, **lake_settings.ENVIRONMENT},
        private_files={
            lake_settings.CREDENTIALS_FILE: lake_settings.private_credentials_file(credentials),
            HIVE_SITE: hive_site,
        },
    )


def _lake(lake: Lake) -> Mapping[str, str]:
    history = {"spark.penstock.skipping.history": f"{lake.root}/penstock/history"}
    return {**lake_settings.spark_settings(lake), **lake_settings.gateway_settings(lake), **history}


def _catalog(lake: Lake) -> Mapping[str, str]:
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{lake.root}/warehouse",
    }
