"""What can be done with this machine's page cache that takes a JVM: reading into it, checking it, dropping a part."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.clusters import jvm, machine, pagecache, trust
from penstock.clusters.plan import BUILT_IN
from penstock.clusters.properties import as_properties
from penstock.engine import admission, settings
from penstock.engine.application import Application, ApplicationSpec
from penstock.engine.engine import Engine
from penstock.engine.lakeuse import LakeUse
from penstock.engine.preparation import lake_of
from penstock.errors import InvalidInput, LakeError, MissingRequirement
from penstock.home import Home, write_atomically
from penstock.lake import settings as lake_settings
from penstock.lake.base import require_s3
from penstock.lake.registry import Lakes
from penstock.profiles.known import HADOOP_PREFIX

# Short runs: the quick compiler alone, one collector thread.
_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Xmx512m",
    "--enable-native-access=ALL-UNNAMED",
)
_LAST_LINES = 5


def warm(
    home: Home, targets: Sequence[str], *, lake: str | None = None, threads: int = 8
) -> Iterator[Mapping[str, Any]]:
    """Read what `targets` name, addresses (`s3a://…`) or tables, and yield the progress; the last has `done`.

    Each has `objects` and `bytes` read so far, `of_objects` and `of_bytes` in all, and `lake`, what the file system has
    counted (docs/reference/files.md). Raises `NotFound` for a table that is none, `LakeError` for what cannot be read,
    `InvalidInput` for an address of another kind.
    """
    found = lake_of(home, lake)
    require_s3(found, "The page cache")
    places = [place for target in targets for place in _places(home, target)]
    spec = ApplicationSpec(
        application=BUILT_IN, name="cache", size=admission.usual_size(machine.capacity(home)), lake=found.name
    )
    all_settings = {**pagecache.settings(machine.page_cache(home)), **settings.resolved(spec, found).values()}
    hadoop = {
        key.removeprefix(HADOOP_PREFIX): value for key, value in all_settings.items() if key.startswith(HADOOP_PREFIX)
    }
    with tempfile.TemporaryDirectory(prefix="penstock-warm-") as name:
        private = Path(name)
        for file, content in lake_settings.private_files(found, Lakes(home).credentials_of(found)).items():
            write_atomically(private / file, content)
        properties = private / "hadoop.properties"
        write_atomically(properties, as_properties(hadoop))
        environment = {key: value.replace("{private}", name) for key, value in lake_settings.environment(found).items()}
        arguments = [str(properties), str(threads), *places]
        trusting = trust.options(jvm.find_java(), found.authorities, cache=home.cache)
        for told in _run("io.penstock.fs.tools.Warm", arguments, environment, private, options=trusting):
            if "error" in told:
                raise LakeError(f"{told['path']} cannot be read", why=told["error"], fix="penstock lake check")
            yield told


def recent_use(home: Home, *, limit: int = 5) -> list[tuple[Application, LakeUse]]:
    """The last applications that read through the cache, the newest first; none while the records' database is down."""
    if Database(home).status().state != "up":
        return []
    uses = ((application, LakeUse.of(application.summary or {})) for application in Engine(home).list(limit=50))
    return [(application, use) for application, use in uses if use and use.hit_rate is not None][:limit]


def status(home: Home) -> dict[str, Any]:
    """Both tiers, how full they are, and how much of their reading the last applications had from them."""
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
            for application, use in recent_use(home)
        ],
    }


def verify(home: Home) -> Iterator[Mapping[str, Any]]:
    """Read every page there is, drop those that are damaged; yields each file dropped, and what each tier has in all.

    The fields are those of `io.penstock.fs.cache.CacheTool`.
    """
    return _cache_tool(home, "verify")


def drop(home: Home, prefix: str) -> Iterator[Mapping[str, Any]]:
    """Drop the pages of the objects below an address; yields what was dropped of each tier. For all of it, see
    `pagecache.drop`."""
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
            f"{text} is no address of a lake", why="those begin with s3a://bucket", fix="s3a://bucket/prefix"
        )


def _cache_tool(home: Home, *arguments: str) -> Iterator[Mapping[str, Any]]:
    told = pagecache.settings(machine.page_cache(home))
    options = [word for key, value in told.items() for word in ("-D", f"{key.removeprefix(HADOOP_PREFIX)}={value}")]
    with tempfile.TemporaryDirectory(prefix="penstock-cache-") as name:
        yield from _run("io.penstock.fs.cache.CacheTool", [*arguments, *options], {}, Path(name))


def _run(
    main_class: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    *,
    options: Sequence[str] = (),
) -> Iterator[Mapping[str, Any]]:
    """The JSON lines a JVM writes.

    Raises `MissingRequirement` where it fails without having said why in a line (`error`, or a tier that is
    `unreadable`), however much it wrote before: killed for want of memory, for one.
    """
    java = jvm.find_java()
    command = [
        str(java.executable),
        *_FLAGS,
        *options,
        f"-Djava.io.tmpdir={directory}",
        *("-cp", os.pathsep.join(map(str, jvm.class_path()))),
        main_class,
        *arguments,
    ]
    log = directory / "stderr"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
            cwd=directory,
        ) as process,
    ):
        cut = explained = False
        try:
            for line in process.stdout or ():
                try:
                    told = json.loads(line)
                except ValueError:
                    cut = True
                    continue
                explained = explained or "error" in told or told.get("state") == "unreadable"
                yield told
            process.wait()
        finally:
            # Whoever asked has enough, or was interrupted.
            process.terminate()
    if cut or (process.returncode and not explained):
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-_LAST_LINES:]
        raise MissingRequirement(
            "The page cache's tool did not work",
            why="\n".join([*last, f"Java ended with {_ending(process.returncode)}"]),
            fix="run it again; penstock status shows what runs here",
        )


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
