"""Hadoop's contract tests and the write tests against the embedded store, and those of reads and writes against Ceph.

Maven runs the same suites against a store of its own, in memory.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.engine.installation import Installation
from penstock.home import Home, write_atomically
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.registry import Lakes
from penstock.model import ProcessSize
from penstock.runtime import jvm

MODULE = Path(__file__).parents[2] / "jvm" / "filesystem"
READS_AND_WRITES = ("contract.ReadContractTest", "write.WriteThroughTest")
EVERYTHING = (*READS_AND_WRITES, "contract.StoreContractTest")
"""On Ceph the last takes over four minutes."""


def test_the_embedded_store_keeps_hadoops_contract_as_far_as_s3a_does(shared_home: Home, tmp_path: Path) -> None:
    succeed(EVERYTHING, shared_home, Installation(shared_home).lake_up().name, tmp_path)


@pytest.mark.root
def test_reads_of_ceph_keep_hadoops_contract_and_writes_leave_their_pages(ceph: Ceph, tmp_path: Path) -> None:
    succeed(READS_AND_WRITES, Home(ceph.directory.parent.parent), "ceph", tmp_path)


def succeed(names: Sequence[str], home: Home, name: str, directory: Path) -> None:
    target = MODULE / "target"
    listed, compiled = target / "test-class-path.txt", target / "test-classes" / "io" / "penstock" / "fs"
    for wanted in (listed, compiled):
        assert wanted.exists(), f"{wanted} is missing: run mvn -f jvm/pom.xml test-compile first, as make does"
    product = jvm.penstock_jar("filesystem", "The file system's jar is not built")
    jars = [product, target / "test-classes", *map(Path, listed.read_text().split(os.pathsep))]
    suites = [argument for suite in names for argument in ("-s", f"io.penstock.fs.{suite}")]
    command = jvm.program_command(
        jvm.Jvm(java=jvm.find_java(), jars=tuple(jars), private=directory, scratch=directory),
        size=ProcessSize(cores=2, memory_bytes=1 << 30),
        main_class="org.scalatest.tools.Runner",
        arguments=["-R", str(target / "test-classes"), "-oW", *suites],
    )
    lake = Lakes(home).get(name)
    keys = Lakes(home).credentials_of(lake)
    profile = directory / "credentials"
    write_atomically(
        profile,
        f"[contract]\naws_access_key_id = {keys.access_key}\naws_secret_access_key = {keys.secret_key}\n",
        mode=0o600,
    )
    environment = {
        **os.environ,
        "PENSTOCK_TEST_S3_ENDPOINT": lake.endpoints[0],
        "AWS_SHARED_CREDENTIALS_FILE": str(profile),
        "AWS_PROFILE": "contract",
    }
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=600, cwd=directory
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    counts = re.search(r"succeeded (\d+), failed 0, canceled 0", done.stdout)
    assert counts and int(counts[1]) > 10 * len(names)
