"""What an application needs around it before it can be launched: the lake up, the catalog's tables made."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.clusters import jvm
from penstock.clusters.base import Launch
from penstock.engine import settings
from penstock.engine.application import ApplicationSpec
from penstock.engine.leasing import credentials_for
from penstock.errors import NotFound
from penstock.home import Home
from penstock.lake import local
from penstock.lake.base import Credentials, Lake
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import EMBEDDED, Lakes


def lake_of(home: Home, name: str | None) -> Lake:
    """The named lake, or the default one, started where this machine runs it; the embedded one where there is none."""
    lakes = Lakes(home)
    try:
        lake = lakes.get(name)
    except NotFound:
        if name not in (None, EMBEDDED):
            raise
        return EmbeddedLake(home).ensure()
    return local.ensured(home, lake)


def lake_name(home: Home, name: str | None) -> str:
    """The name of what `lake_of` returns; nothing is started. Raises `NotFound` where there is none of that name."""
    try:
        return Lakes(home).get(name).name
    except NotFound:
        if name not in (None, EMBEDDED):
            raise
        return EMBEDDED


def check_reachable(home: Home, name: str | None) -> None:
    """Raise `LakeError` where no gateway of an external lake answers, or it refuses the credentials, or has no such
    bucket.

    Those of this machine were just started, or seen running, by `lake_of`.
    """
    lakes = Lakes(home)
    lake = lakes.get(name)
    if local.store_of(home, lake) is None:
        from penstock.lake.check import require_usable

        require_usable(lake, lakes.client_credentials(lake))


class Preparation:
    """Lake and catalog side by side, begun when it is made and waited for when it is needed."""

    def __init__(self, home: Home, database: Database, lake: str | None) -> None:
        self._home = home
        with ThreadPoolExecutor(2) as pool:
            self._lake: Future[tuple[Lake, Credentials | None]] = pool.submit(self._open_lake, lake)
            self._hive_site: Future[str] = pool.submit(_open_catalog, database)
            pool.shutdown(wait=False)

    @property
    def lake(self) -> Lake:
        return self._lake.result()[0]

    def hive_site(self) -> str:
        return self._hive_site.result()

    def launch(self, application_id: str, spec: ApplicationSpec) -> Launch:
        """Raises what stood in the way: `LakeError`, `CatalogError`, `MissingRequirement`, `NotFound`."""
        lake, own = self._lake.result()
        return settings.launch(
            application_id,
            spec,
            lake,
            credentials=None if own is None else credentials_for(lake, own, application_id),
            hive_site=self.hive_site(),
        )

    def _open_lake(self, name: str | None) -> tuple[Lake, Credentials | None]:
        lake = lake_of(self._home, name)
        return lake, Lakes(self._home).client_credentials(lake)


def _open_catalog(database: Database) -> str:
    metastore = Metastore(database)
    metastore.ensure_schema(jvm.find_java().executable, jvm.class_path())
    return metastore.hive_site()
