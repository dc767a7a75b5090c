"""Temporary credentials from a real Ceph cluster: an application outlives its first ones, and holds no others."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.ceph.bootstrap import ROLE
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.checks.verdicts import LakeCheck
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.lake.s3 import s3_client
from penstock.lake.settings import CREDENTIALS_FILE, parse_lease
from penstock.model import Application, State
from tests.support.command import SMALL, Command, named
from tests.support.secrets_search import command_lines, files_left, records
from tests.support.waiting import within

pytestmark = pytest.mark.root

SECONDS = 16
NAME = "leased"

# Replaces a table and reads it repeatedly until an object requests its end; then it tries another bucket, which the
# role alone would allow.
WORKS_ON = """
import os, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
target, other, go = sys.argv[1:]
done = 0
while not os.path.exists(go):
    done += 1
    spark.range(0, 1000, 1, 4).write.mode("overwrite").parquet(target)
    assert spark.read.parquet(target).count() == 1000
    print("round", done, flush=True)
try:
    spark.read.text(other).count()
    print("other bucket: read")
except Exception as error:
    print("other bucket:", "refused" if "AccessDenied" in str(error) or "403" in str(error) else str(error)[:300])
spark.stop()
"""


@pytest.fixture
def lake(ceph: Ceph, shared_home: Home) -> Iterator[Lake]:
    """Ceph's lake, in a home whose applications get credentials for 15 seconds at a time."""
    theirs = Lakes(Home(ceph.directory.parent.parent))
    on_ceph = theirs.get("ceph")
    role = f"arn:aws:iam:::role/{ROLE}"
    lakes = Lakes(shared_home)
    own = theirs.credentials_of(on_ceph)
    leasing = replace(on_ceph, name=NAME, kind="external", sts=Sts(on_ceph.endpoints[0], role, SECONDS))
    yield lakes.add(leasing, own)
    lakes.remove(NAME)


def test_an_application_outlives_its_credentials_and_the_engine_that_renewed_them(
    lake: Lake, shared_home: Home, tmp_path: Path
) -> None:
    engine, command, go = Engine(shared_home), Command(shared_home), tmp_path / "go"
    script = tmp_path / "works.py"
    script.write_text(WORKS_ON, encoding="utf-8")
    other = "s3a://ceph-erasure/"
    options = ("--detach", "--lake", NAME, "--name", NAME, *SMALL, "--conf", "spark.eventLog.compress=false")
    code, out, err = command.run("run", *options, str(script), f"{lake.root}/leased", other, str(go))
    shown = {"what was printed": (out + err).encode()}
    assert code == 0, err
    try:
        within(lambda: rounds(engine) >= 1)
        (application,) = [one for one in named(engine, NAME) if not one.state.final]
        directory = shared_home.application(application.id)
        held = [leased(directory)]

        def renewed() -> bool:
            now = leased(directory)
            if now != held[-1]:
                held.append(now)
            return len(held) > 2

        within(renewed, 3 * SECONDS)
        os.kill(supervisor_of(application), signal.SIGKILL)
        within(lambda: application.id in engine.reconcile())
        before = len(held)
        within(lambda: renewed() and len(held) > before, 2 * SECONDS)
        worked = rounds(engine)
        within(lambda: rounds(engine) > worked, 30)
        own = Lakes(shared_home).credentials_of(lake)
        files = dict(contents(directory))
        shown.update({name: text for name, text in files.items() if "/private/" not in name})
        shown.update(command_lines())
        assert own.secret_key.encode() not in b"".join(environments(application))
        assert [name for name, text in files.items() if own.secret_key.encode() in text] == []
        assert refusal(lambda: listed(lake, held[0])) in ("AccessDenied", "ExpiredToken")  # really expired
    finally:
        go.touch()
    ended = engine.wait(application.id, timeout_seconds=120)
    assert ended.state is State.FINISHED, ended.reason
    assert "other bucket: refused" in engine.artifacts.load(ended.id, "driver.out").decode()
    assert not directory.exists()
    for name in engine.artifacts.sizes(ended.id):
        shown[f"artifact {name}"] = engine.artifacts.load(ended.id, name)
    shown.update(records(shared_home))
    shown.update(files_left(shared_home))
    secrets = {"the lake's": own.secret_key, **{f"lease {at}": keys.secret_key for at, keys in enumerate(held)}}
    secrets.update({f"token {at}": keys.session_token or "-" * 40 for at, keys in enumerate(held)})
    assert [(name, kind) for name, text in shown.items() for kind, one in secrets.items() if one.encode() in text] == []


def test_the_check_of_such_a_lake_says_what_applications_get(lake: Lake, shared_home: Home) -> None:
    rows = {row.feature: row.verdict for row in LakeCheck(lake, Lakes(shared_home).credentials_of(lake)).run()}
    assert re.match("issued for 1[5-7] s", rows["temporary credentials"].measured)
    assert rows["temporary credentials"].measured.endswith("delete in the bucket, one object at a time")
    assert "limited to this bucket" in rows["temporary credentials"].consequence


def test_a_role_the_store_does_not_know_fails_the_application_and_says_so(
    lake: Lake, shared_home: Home, tmp_path: Path
) -> None:
    Lakes(shared_home).add(replace(lake, sts=Sts(lake.endpoints[0], "arn:aws:iam:::role/nobody", 900)))
    script = tmp_path / "never.py"
    script.write_text("print('ran')", encoding="utf-8")
    code, out, err = Command(shared_home).run("run", *SMALL, "--lake", NAME, str(script))
    assert code != 0
    assert "ran" not in out
    assert "issues no credentials for the role arn:aws:iam:::role/nobody" in err
    assert "--role-arn" in err


def leased(directory: Path) -> Credentials:
    lease = parse_lease((directory / "private" / CREDENTIALS_FILE).read_text(encoding="utf-8"))
    assert lease is not None
    assert (directory / "private" / CREDENTIALS_FILE).stat().st_mode & 0o777 == 0o600
    return lease.credentials


def contents(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Return the files that exist now; others may come and go."""
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                yield str(path), path.read_bytes()


def rounds(engine: Engine) -> int:
    newest = max(named(engine, NAME), key=lambda one: one.submitted_at)
    assert not newest.state.final, newest.reason
    return engine.artifacts.read(newest, "driver.out", 0).count(b"round ")


def supervisor_of(application: Application) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"penstock.engine.supervisor_process" in command and application.id.encode() in command:
            return int(process.name)
    raise AssertionError("nobody looks after it")


def environments(application: Application) -> Iterator[bytes]:
    mark = f"PENSTOCK_APPLICATION={application.id}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found = (process / "environ").read_bytes()
        except OSError:
            continue
        if mark in found:
            yield found


def listed(lake: Lake, credentials: Credentials) -> None:
    s3_client(lake, credentials, lake.endpoints[0]).list_objects_v2(Bucket=lake.bucket)


def refusal(request: Callable[[], None]) -> str:
    deadline = time.monotonic() + 2 * SECONDS
    while time.monotonic() < deadline:
        try:
            request()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        time.sleep(0.5)
    return "none"
