"""What one home has on this machine besides applications: lake, catalog and class-data archives, up and down."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from penstock.catalog.database import Database
from penstock.clusters import archives, jvm, machine, pagecache
from penstock.clusters.plan import BUILT_IN
from penstock.engine import admission
from penstock.engine.application import ApplicationSpec, State
from penstock.engine.engine import Engine
from penstock.engine.history import History
from penstock.engine.preparation import Preparation
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.lake import local
from penstock.lake.base import Lake
from penstock.lake.registry import Lakes

_UNFINISHED = tuple(state for state in State if not state.final)
_TRAINING = "penstock/training"


class Installation:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._database = Database(home)
        self._engine = Engine(home)
        self._preparation: Preparation | None = None

    def lake_up(self) -> Lake:
        """The default lake, started where it is the embedded one."""
        return self._prepared().lake

    def catalog_up(self) -> str:
        """The database with both schemas; returns its address, without the password."""
        self._prepared().hive_site()
        self._engine.list(limit=1)
        return self._database.status().address

    def archives_made(self) -> bool:
        """Make the class-data archives of this Java and these jars; False where they were there."""
        if archives.made(self._home):
            return False
        lake = self.lake_up()
        size = admission.usual_size(machine.capacity(self._home))
        spec = ApplicationSpec(application=BUILT_IN, size=size, name="training", lake=lake.name)
        launch = self._prepared().launch("training", spec)
        archives.make(
            self._home,
            location=f"{lake.root}/{_TRAINING}",
            settings=launch.settings,
            environment=launch.environment,
            private_files=launch.private_files,
        )
        return True

    def down(self) -> Iterator[str]:
        """Stop everything, applications first; tells what was stopped."""
        if self._home.applications.exists() and any(self._home.applications.iterdir()):
            for application in self._engine.list(states=_UNFINISHED):
                self._engine.stop(application.id)
                yield f"{application.id} stopped"
            for application_id in self._engine.reconcile():
                self._engine.wait(application_id)
        for lake in History(self._engine).stop_all():
            yield f"history server of {lake} stopped"
        for kind, store in local.stores(self._home).items():
            if store.down():
                yield f"{kind} lake stopped"
        if self._database.down():
            yield "embedded database stopped"

    def status(self) -> list[tuple[str, str]]:
        """Label and finding, without starting anything."""
        database = self._database.status()
        rows = [
            ("state directory", str(self._home.root)),
            *((f"{kind} lake", told) for kind, store in local.stores(self._home).items() if (told := store.summary())),
            ("default lake", Lakes(self._home).default() or "none yet"),
            ("history server", ", ".join(History(self._engine).running()) or "not running"),
            ("database", " ".join(filter(None, [database.state, database.address]))),
            ("java", _java()),
        ]
        try:
            fast = "made" if archives.made(self._home) else "not made: penstock up makes them"
        except PenstockError as error:
            fast = error.problem
        rows.append(("class-data archives", fast))
        rows += [(f"cache in {tier.name}", _filling(tier)) for tier in machine.page_cache(self._home)]
        if database.state == "up":
            running = self._engine.list(states=_UNFINISHED)
            listed = ", ".join(f"{application.id} {application.state.value}" for application in running)
            rows.append(("applications", listed or "none running"))
        return rows

    def wipe(self) -> None:
        """Remove all of the home, and what it has elsewhere: the page cache in memory, stores' data on other disks."""
        for store in local.stores(self._home).values():
            store.wipe()
        self._database.wipe()
        pagecache.remove(machine.page_cache(self._home))
        shutil.rmtree(self._home.root, ignore_errors=True)

    def _prepared(self) -> Preparation:
        if self._preparation is None:
            self._preparation = Preparation(self._home, self._database, None)
        return self._preparation


def _filling(tier: pagecache.Tier) -> str:
    used = tier.contents.used_bytes if tier.contents else 0
    return f"{used >> 20:,} of {tier.budget_bytes >> 20:,} MiB in {tier.directory}".replace(",", " ")


def _java() -> str:
    try:
        java = jvm.find_java()
    except PenstockError as error:
        return error.problem
    return f"{java.version} in {java.home}"
