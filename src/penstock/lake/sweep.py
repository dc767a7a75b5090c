"""Leftovers of killed jobs in a lake: committed jobs are finished, the files of others are removed.

The logic is that of the file system (`io.penstock.fs.commit.Sweep`), in a JVM that runs for some seconds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from penstock.codec import JsonRecord
from penstock.errors import LakeError
from penstock.formats import as_properties
from penstock.lake.model import Credentials, Lake
from penstock.lake.settings import CREDENTIALS_FILE, ENVIRONMENT, private_credentials_file, spark_settings
from penstock.model import Application
from penstock.runtime import jvm, tool

_MAIN = "io.penstock.fs.commit.Sweep"
_HADOOP = "spark.hadoop."


@dataclass(frozen=True)
class SweepFinding(JsonRecord):
    """The leftovers of one job.

    `action` is finished, removed, kept, would finish or would remove; `newest` is the job's last change.
    """

    kind: str
    at: str
    job: str | None
    files: int
    bytes: int
    newest: datetime
    action: str


@dataclass(frozen=True)
class SweepReport:
    """The result of a sweep."""

    objects: int
    """The number of objects listed."""
    found: tuple[SweepFinding, ...]


def cutoff(now: datetime, older_than: timedelta, running: Iterable[Application]) -> tuple[datetime, Application | None]:
    """The time from which objects are kept, by their age or because a running application may have written them.

    In the latter case the application is returned as well.
    """
    by_age = now - older_than
    earliest = min(running, key=lambda application: application.submitted_at, default=None)
    if earliest is not None and earliest.submitted_at < by_age:
        return earliest.submitted_at, earliest
    return by_age, None


def sweep(lake: Lake, credentials: Credentials, prefix: str, *, before: datetime, dry_run: bool) -> SweepReport:
    """Sweep the keys that begin with `prefix`. Raises `LakeError` if the sweep fails."""
    settings = {
        key.removeprefix(_HADOOP): value for key, value in spark_settings(lake).items() if key.startswith(_HADOOP)
    }
    files = {
        CREDENTIALS_FILE: private_credentials_file(credentials),
        "settings": as_properties({**settings, "fs.s3a.buffer.dir": "${java.io.tmpdir}"}),
    }
    until = str(round(before.timestamp() * 1000))
    arguments = ["--settings", "{private}/settings", "--bucket", lake.bucket, "--prefix", prefix, "--before", until]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-trust-") as trust,
        tool.run(
            _MAIN,
            [*arguments, *(["--dry-run"] if dry_run else [])],
            files=files,
            environment={"LC_ALL": "C.UTF-8", "PATH": os.defpath, **ENVIRONMENT},
            options=[
                *jvm.trust_options(jvm.find_java(), lake.authorities, cache=Path(trust)),
                "-Dlog4j2.configurationFile=classpath:log4j2-driver.properties",
                "-Dpenstock.log={private}/log",
            ],
        ) as sweeping,
    ):
        output = list(sweeping.lines())
        if sweeping.code != 0:
            raise LakeError(
                f"The sweep of {lake.root} failed",
                why="\n".join(sweeping.last_errors()) or f"Java ended with {sweeping.ending}",
                fix=f"penstock lake check --lake {lake.name}",
            )
    return _read(output[-1])


def _read(line: str) -> SweepReport:
    report = json.loads(line)
    found = (
        SweepFinding(**{**row, "newest": datetime.fromtimestamp(row["newest"] / 1000, tz=timezone.utc)})
        for row in report["found"]
    )
    return SweepReport(report["objects"], tuple(found))
