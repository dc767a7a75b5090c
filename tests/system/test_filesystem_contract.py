"""Hadoop's contract tests and the write tests against the embedded store.

Maven runs the same suites against its own store.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake.registry import EMBEDDED
from penstock.model import ProcessSize
from penstock.runtime import jvm

MODULE = Path(__file__).parents[2] / "jvm" / "filesystem"
SUITES = ("contract.ReadContractTest", "contract.StoreContractTest", "write.WriteThroughTest")


def test_the_embedded_store_keeps_hadoops_contract_as_far_as_s3a_does(shared_home: Home, tmp_path: Path) -> None:
    target = MODULE / "target"
    listed, compiled = target / "test-class-path.txt", target / "test-classes" / "io" / "penstock" / "fs"
    for wanted in (listed, compiled):
        assert wanted.exists(), f"{wanted} is missing: run mvn -f jvm/pom.xml verify first, as make test does"
    product = jvm.penstock_jar("filesystem", "The file system's jar is not built")
    jars = [product, target / "test-classes", *map(Path, listed.read_text().split(os.pathsep))]
    suites = [argument for suite in SUITES for argument in ("-s", f"io.penstock.fs.{suite}")]
    command = jvm.program_command(
        jvm.Jvm(java=jvm.find_java(), jars=tuple(jars), private=tmp_path, scratch=tmp_path),
        size=ProcessSize(cores=2, memory_bytes=1 << 30),
        main_class="org.scalatest.tools.Runner",
        arguments=["-R", str(target / "test-classes"), "-oW", *suites],
    )
    lake = Installation(shared_home).lake_up()
    environment = {
        **os.environ,
        "PENSTOCK_TEST_S3_ENDPOINT": lake.endpoints[0],
        "AWS_SHARED_CREDENTIALS_FILE": str(shared_home.lake / "credentials"),
        "AWS_PROFILE": EMBEDDED,
    }
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    counts = re.search(r"succeeded (\d+), failed 0, canceled 0", done.stdout)
    assert counts and int(counts[1]) > 30
