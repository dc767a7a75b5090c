"""The parts of a home besides its applications: lake, catalog, class-data archives, and the page-cache tools."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.clusters import machine
from penstock.engine.class_archives import ClassArchives
from penstock.engine.engine import Engine
from penstock.engine.engines import spark
from penstock.engine.interactive.history import HistoryServers
from penstock.engine.policy import admission
from penstock.engine.preparation import Preparation, lake_of
from penstock.errors import InvalidInput, LakeError, MissingRequirement, PenstockError
from penstock.formats import as_properties
from penstock.home import Home
from penstock.lake import settings as lake_settings
from penstock.lake import stores
from penstock.lake.model import Lake, require_s3
from penstock.lake.registry import Lakes
from penstock.model import SPARK_INTERNAL, Application, ApplicationSpec, State
from penstock.profiles.known import HADOOP_PREFIX
from penstock.runtime import jvm, tool
from penstock.summary import IoMetrics

_UNFINISHED = tuple(state for state in State if not state.final)


class Installation:
    def __init__(self, home: Home) -> None:
        self._home = home
        self.archives = ClassArchives(home)
        self._database = Database(home)
        self._engine = Engine(home)
        self._preparation: Preparation | None = None

    def lake_up(self) -> Lake:
        """The default lake; the embedded one is started."""
        return self._prepared().lake

    def catalog_up(self) -> str:
        """Start the database and create both schemas; return its address, without the password."""
        self._prepared().hive_site()
        self._engine.list(limit=1)
        return self._database.status().address

    def down(self) -> Iterator[str]:
        """Stop everything; yield a line for each part that was stopped."""
        if self.archives.end():  # it would start the lake again
            yield "build of class-data archives stopped"
        if self._home.applications.exists() and any(self._home.applications.iterdir()):
            for application in self._engine.list(states=_UNFINISHED):
                self._engine.stop(application.id)
                yield f"{application.id} stopped"
            for application_id in self._engine.reconcile():
                self._engine.wait(application_id)
        for lake in HistoryServers(self._engine).stop_all():
            yield f"history server of {lake} stopped"
        for kind, store in stores.stores(self._home).items():
            if store.down():
                yield f"{kind} lake stopped"
        if self._database.down():
            yield "embedded database stopped"

    def status(self) -> list[tuple[str, str]]:
        """Rows of label and status; nothing is started."""
        database = self._database.status()
        rows = [
            ("state directory", str(self._home.root)),
            *(
                (f"{kind} lake", summary)
                for kind, store in stores.stores(self._home).items()
                if (summary := store.summary())
            ),
            ("default lake", Lakes(self._home).default() or "none yet"),
            ("history server", ", ".join(HistoryServers(self._engine).running()) or "not running"),
            ("database", " ".join(filter(None, [database.state, database.address]))),
            ("java", _java()),
        ]
        try:
            fast = self.archives.status().sentence()
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
        """Remove the home with its data elsewhere: the page cache in memory, and stores' data on other disks."""
        for store in stores.stores(self._home).values():
            store.wipe()
        self._database.wipe()
        machine.remove_tiers(machine.page_cache(self._home))
        shutil.rmtree(self._home.root, ignore_errors=True)

    def _prepared(self) -> Preparation:
        if self._preparation is None:
            self._preparation = Preparation(self._home, self._database, None)
        return self._preparation


def _filling(tier: machine.Tier) -> str:
    used = tier.contents.used_bytes if tier.contents else 0
    return f"{used >> 20:,} of {tier.budget_bytes >> 20:,} MiB in {tier.directory}".replace(",", " ")


def _java() -> str:
    try:
        java = jvm.find_java()
    except PenstockError as error:
        return error.problem
    return f"{java.version} in {java.home}"


def warm(
    home: Home, targets: Sequence[str], *, lake: str | None = None, threads: int = 8
) -> Iterator[Mapping[str, Any]]:
    """Read `targets`, addresses (`s3a://…`) or tables, into the page cache and yield progress, `done` at last.

    Each item has `objects` and `bytes` read so far, the totals `of_objects` and `of_bytes`, and `lake`, the counters of
    the file system (docs/reference/files.md). Raises `NotFound` for a missing table, `LakeError` for an unreadable
    object, and `InvalidInput` for any other kind of address.
    """
    found = lake_of(home, lake)
    require_s3(found, "The page cache")
    places = [place for target in targets for place in _places(home, target)]
    spec = ApplicationSpec(
        application=SPARK_INTERNAL, name="cache", size=admission.usual_size(machine.capacity(home)), lake=found.name
    )
    all_settings = {**machine.tier_settings(machine.page_cache(home)), **spark.resolved(spec, found).values()}
    hadoop = {
        key.removeprefix(HADOOP_PREFIX): value for key, value in all_settings.items() if key.startswith(HADOOP_PREFIX)
    }
    trusting = jvm.trust_options(jvm.find_java(), found.authorities, cache=home.cache)
    progress_lines = _run(
        "io.penstock.fs.CacheWarmer",
        ["{private}/hadoop.properties", str(threads), *places],
        files={
            **lake_settings.private_files(found, Lakes(home).credentials_of(found)),
            "hadoop.properties": as_properties(hadoop),
        },
        environment={**os.environ, **lake_settings.environment(found)},
        options=trusting,
    )
    for progress in progress_lines:
        if "error" in progress:
            raise LakeError(f"{progress['path']} cannot be read", why=progress["error"], fix="penstock lake check")
        yield progress


def recent_use(home: Home, instances: Collection[str] | None = None) -> list[tuple[Application, IoMetrics]]:
    """The last five applications that read through the cache, newest first; none while the database is down.

    They are those of `instances`, or of all instances for None.
    """
    if Database(home).status().state != "up":
        return []
    recent = Engine(home).list(instances=instances, limit=50)
    uses = ((application, IoMetrics.of(application.summary or {})) for application in recent)
    return [(application, use) for application, use in uses if use and use.hit_rate is not None][:5]


def status(home: Home, *, instances: Collection[str] | None = None) -> dict[str, Any]:
    """The page-cache tiers with their fill, and the hit rates of the last applications (see `recent_use`)."""
    return {
        "tiers": [
            {
                "tier": tier.name,
                "directory": str(tier.directory),
                "budget_bytes": tier.budget_bytes,
                "used_bytes": tier.contents.used_bytes if tier.contents else 0,
                "pages": tier.contents.pages if tier.contents else 0,
                "evictions": tier.contents.evictions if tier.contents else 0,
            }
            for tier in machine.page_cache(home)
        ],
        "applications": [
            {"id": application.id, "name": application.spec.name, "hit_rate": use.hit_rate, "read_bytes": use.read}
            for application, use in recent_use(home, instances)
        ],
    }


def verify(home: Home) -> Iterator[Mapping[str, Any]]:
    """Read every page and drop the damaged ones; yield each dropped file and the totals of each tier.

    The fields are those of `io.penstock.fs.cache.CacheAdmin`.
    """
    return _cache_tool(home, "verify")


def drop(home: Home, prefix: str) -> Iterator[Mapping[str, Any]]:
    """Drop the pages of the objects below an address; yield the counts of each tier.

    For the whole page cache, see `pagecache.drop`.
    """
    _require_address(prefix)
    return _cache_tool(home, "drop", prefix)


def _places(home: Home, target: str) -> list[str]:
    if "://" not in target:
        return Metastore(Database(home)).locations(target)
    _require_address(target)
    return [target]


def _require_address(text: str) -> None:
    if not text.startswith("s3a://") or text == "s3a://":
        raise InvalidInput(
            f"{text} is not an address in a lake", why="it must begin with s3a://bucket", fix="s3a://bucket/prefix"
        )


def _cache_tool(home: Home, *arguments: str) -> Iterator[Mapping[str, Any]]:
    settings = machine.tier_settings(machine.page_cache(home))
    options = [word for key, value in settings.items() for word in ("-D", f"{key.removeprefix(HADOOP_PREFIX)}={value}")]
    yield from _run("io.penstock.fs.cache.CacheAdmin", [*arguments, *options])


def _run(main_class: str, arguments: Sequence[str], **how: Any) -> Iterator[Mapping[str, Any]]:
    """Run a program (see `runtime.tool.run`) and yield the JSON lines that it writes.

    Raises `MissingRequirement` where it fails without a line that says why (`error`, or a tier that is `unreadable`),
    however much it wrote before: for example when it was killed for lack of memory.
    """
    with tool.run(main_class, arguments, **how) as running:
        cut = explained = False
        for line in running.lines():
            try:
                item = json.loads(line)
            except ValueError:
                cut = True
                continue
            explained = explained or "error" in item or item.get("state") == "unreadable"
            yield item
        if cut or (running.code and not explained):
            raise MissingRequirement(
                "The page-cache tool failed",
                why="\n".join([*running.last_errors(), f"Java ended with {running.ending}"]),
                fix="run it again; penstock status shows what runs here",
            )
