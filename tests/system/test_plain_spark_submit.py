"""The file system by itself: pyspark's `spark-submit` with the guide's settings, and no engine.

The settings are read from the guide, so that the tests try its promises.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.formats import as_properties
from penstock.home import Home
from penstock.lake.model import Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.s3 import open_store, s3_client
from penstock.runtime.jvm import find_java, penstock_jars, spark_jars
from tests.support.recording_gateway import RecordingGateway, first_endpoint

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "filesystem.md"

WRITES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
table = sys.argv[1]
def write(first, last, mode):
    rows = spark.range(first, last, 1, 2).selectExpr("id", "id % 3 as part")
    rows.write.mode(mode).partitionBy("part").parquet(table)
write(0, 300, "overwrite")
write(300, 600, "append")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
spark.range(1000, 1010, 1, 1).selectExpr("id", "2 as part").write.mode("overwrite").partitionBy("part").parquet(table)
"""

READS = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.read.schema("id BIGINT, part INT").parquet(sys.argv[1]).groupBy("part").sum("id").collect()
with open(sys.argv[2], "w") as answer:
    json.dump(dict(rows), answer)
"""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    copies: bool
    """Whether the request asks the store to copy an object, which is how S3A renames."""


class Recorder(RecordingGateway):
    """A gateway that passes everything on, and records the head of each request."""

    _HEAD = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.requests: list[Request] = []
        super().__init__(upstream)

    def received(self, data: bytes) -> None:
        if head := self._HEAD.match(data):
            copies = b"x-amz-copy-source" in data.lower()
            self.requests.append(Request(head[1].decode(), head[2].decode(), copies))


@pytest.fixture
def recorder(shared_home: Home) -> Iterator[Recorder]:
    recorder = Recorder(first_endpoint(Lakes(shared_home).get(EMBEDDED)))
    yield recorder
    recorder.close()


def in_guide(setting: str) -> dict[str, str]:
    """Return all settings of the guide's block that contains this one."""
    blocks = re.findall(r"^```\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if re.search(rf"^{re.escape(setting)}\s", block, re.MULTILINE)]
    return dict(line.split(None, 1) for line in block.splitlines())


def submit(home: Home, directory: Path, master: str, settings: dict[str, str], script: str, *arguments: str) -> None:
    """Run `spark-submit` in an environment without Penstock's variables."""
    (directory / "script.py").write_text(script)
    (directory / "settings.conf").write_text(as_properties(settings))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PENSTOCK"))
    }
    done = subprocess.run(
        [
            str(directory / "spark" / "bin" / "spark-submit"),
            *("--master", master, "--properties-file", str(directory / "settings.conf")),
            *(str(directory / "script.py"), *arguments),
        ],
        check=False,
        env={
            **kept,
            "AWS_SHARED_CREDENTIALS_FILE": str(home.lake / "credentials"),
            "AWS_PROFILE": EMBEDDED,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(directory / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=180,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr[-8000:]


def spark_with_s3a(directory: Path, lake: Lake, recorder: Recorder) -> dict[str, str]:
    """Link Spark below `directory`, where its executors may write; return the settings of any Spark with S3A there."""
    (directory / "spark").mkdir()
    for part in ("bin", "jars"):
        (directory / "spark" / part).symlink_to(spark_jars().parent / part)
    jars = [jar for jar in penstock_jars().glob("*.jar") if not jar.name.startswith("penstock-")]
    return {
        "spark.jars": ",".join(map(str, sorted([*jars, penstock_jars() / "penstock-filesystem.jar"]))),
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        # The optimising compiler would take half the CPU time of applications as short as these.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint": recorder.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": lake.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
        ),
        "spark.hadoop.fs.s3a.penstock.cache.memory.dir": str(directory / "memory"),
        "spark.hadoop.fs.s3a.penstock.cache.disk.dir": str(directory / "disk"),
    }


def test_plain_spark_writes_without_renames_and_reads_what_it_wrote_without_a_get(
    shared_home: Home, recorder: Recorder, tmp_path: Path
) -> None:
    lakes = Lakes(shared_home)
    lake = lakes.get(EMBEDDED)
    table = "plain/written"
    s3a = spark_with_s3a(tmp_path, lake, recorder)
    cached = in_guide("spark.hadoop.fs.s3a.impl")
    committed = in_guide("spark.sql.sources.commitProtocolClass")

    # The executor is a separate process, which receives the jars and returns its commit data.
    cluster = "local-cluster[1,1,512]"
    submit(shared_home, tmp_path, cluster, {**s3a, **cached, **committed}, WRITES, f"{lake.root}/{table}")
    written = recorder.requests.copy()
    assert any(request.method == "POST" and "uploadId=" in request.target for request in written)
    assert not [request for request in written if request.copies]
    keys = [found.key for found in open_store(shared_home, lake).list(table + "/")]
    assert not [key for key in keys if "_temporary" in key or "__magic" in key or ".spark-staging" in key]
    client = s3_client(lake, lakes.credentials_of(lake), lake.endpoints[0])
    pending: dict[str, Any] = client.list_multipart_uploads(Bucket=lake.bucket, Prefix=table)
    assert not pending.get("Uploads")

    # Only those three: with the fourth, a one-byte read instead of a status request determines a file's version.
    del cached["spark.sql.extensions"]
    recorder.requests.clear()
    answer = tmp_path / "answer.json"
    submit(shared_home, tmp_path, "local[2]", {**s3a, **cached}, READS, f"{lake.root}/{table}", str(answer))
    assert json.loads(answer.read_text()) == {
        "0": sum(range(0, 600, 3)),
        "1": sum(range(1, 600, 3)),
        "2": sum(range(1000, 1010)),
    }
    assert not [request for request in recorder.requests if request.method == "GET" and ".parquet" in request.target]
