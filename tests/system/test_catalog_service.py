"""The metastore service: another engine, which knows an address and its own keys alone, uses the catalog's tables."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.processes import processes_in
from penstock.runtime.jvm import find_java, penstock_jars
from tests.support.command import PATIENCE_SECONDS, Command
from tests.support.waiting import within

OURS = """
SELECT * FROM served.theirs ORDER BY id;
CREATE TABLE served.ours (id INT, name STRING) USING parquet;
INSERT INTO served.ours VALUES (1, 'one'), (2, NULL);
ALTER TABLE served.theirs SET TBLPROPERTIES ('seen' = 'yes')
"""

# Python's own interpreter may lie where no other account can read.
STRANGER = "exec 3<>/dev/tcp/$0 && head -c 1 <&3 | wc -c"

OTHER_ENGINE = """
import json, sys
from pyspark.sql import SparkSession
settings = json.load(open(sys.argv[1]))
builder = SparkSession.builder.master("local[1]").enableHiveSupport()
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sql("CREATE DATABASE served")
spark.sql("CREATE TABLE served.theirs (id INT, name STRING) USING parquet")
spark.sql("INSERT INTO served.theirs VALUES (3, 'three'), (4, NULL)")
print("written", flush=True)
sys.stdin.readline()
for statement in ("SELECT * FROM served.ours ORDER BY id", "SHOW TBLPROPERTIES served.theirs ('seen')"):
    print(json.dumps([list(row) for row in spark.sql(statement).collect()]), flush=True)
spark.stop()
"""


@contextmanager
def serving(home: Home, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a metastore service, as its process and its address, and end it."""
    service = Command(home).start("catalog", "serve", "--port", "0", *options)
    assert service.stdout
    yield service, service.stdout.readline().strip()
    if service.poll() is None:
        service.terminate()
        _, errors = service.communicate(timeout=PATIENCE_SECONDS)
        assert service.returncode == 0, errors


@pytest.fixture(scope="module")
def url(shared_home: Home) -> Iterator[str]:
    """The address of a metastore service of the shared home."""
    with serving(shared_home) as (_, address):
        yield address


@contextmanager
def other_engine(home: Home, url: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Run plain Spark in one process, with the exported file of Hive's clients and the store's keys."""
    Command(home).ok(
        *("lake", "export", "client", "hive", "--metastore", url, "--output", str(directory / "hive-site.xml"))
    )
    jars = [jar for jar in penstock_jars().glob("*.jar") if not jar.name.startswith("penstock-")]
    settings = {
        "spark.jars": ",".join(map(str, sorted(jars))),
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": f"{Lakes(home).get(EMBEDDED).root}/warehouse",
    }
    (directory / "engine.py").write_text(OTHER_ENGINE)
    (directory / "settings.json").write_text(json.dumps(settings))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PENSTOCK"))
    }
    with (
        (directory / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(directory / "engine.py"), str(directory / "settings.json")],
            env={
                **kept,
                "AWS_SHARED_CREDENTIALS_FILE": str(home.lake / "credentials"),
                "AWS_PROFILE": EMBEDDED,
                "JAVA_HOME": str(find_java().home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONF_DIR": str(directory),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=directory,
        ) as engine,
    ):
        yield engine


@pytest.fixture
def twin(shared_home: Home) -> Iterator[str]:
    """The name of a second lake of the shared home, on the same store."""
    lakes = Lakes(shared_home)
    embedded = lakes.get(EMBEDDED)
    yield lakes.add(replace(embedded, name="twin", kind="external"), lakes.credentials_of(embedded)).name
    lakes.remove("twin")


def test_two_engines_use_each_others_tables(penstock: Command, shared_home: Home, url: str, tmp_path: Path) -> None:
    with other_engine(shared_home, url, tmp_path) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == "written\n", (tmp_path / "errors").read_text()[-8000:]
        assert penstock.sql(OURS).rows == [[[3, "three"], [4, None]]]
        printed, _ = engine.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert engine.returncode == 0, (tmp_path / "errors").read_text()[-8000:]
    ours, seen = map(json.loads, printed.splitlines())
    assert ours == [[1, "one"], [2, None]]
    assert seen == [["seen", "yes"]]
    shown = json.loads(penstock.ok("tables", "show", "served.theirs", "--json"))
    assert shown["location"].startswith(Lakes(shared_home).get(EMBEDDED).root + "/warehouse/")


@pytest.mark.root
def test_another_account_of_this_machine_is_not_served(url: str) -> None:
    address = url.removeprefix("thrift://").replace(":", "/")
    done = subprocess.run(
        ["/bin/bash", "-c", STRANGER, address],
        user=65534,
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.strip() == "0"


def test_a_killed_service_ends_whole_and_the_next_one_of_its_lake_removes_its_files(
    penstock: Command, shared_home: Home, twin: str
) -> None:
    with serving(shared_home, "--lake", twin) as (killed, _):
        private = shared_home.root / "metastore" / twin
        (private / "left").touch()
        code, _, errors = penstock.run("catalog", "serve", "--lake", twin, "--port", "0")
        assert code == 7
        assert f"A metastore service of lake {twin} is running already" in errors
        killed.kill()
        killed.wait()
    within(lambda: not processes_in(private))
    assert (private / "hive-site.xml").exists()
    with serving(shared_home, "--lake", twin):
        assert not (private / "left").exists()
        assert private.stat().st_mode & 0o077 == 0
    assert not private.exists()


def test_a_port_that_is_taken_is_told_with_its_fix(penstock: Command, twin: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, errors = penstock.run("catalog", "serve", "--lake", twin, "--port", str(port))
    assert (code, out) == (4, "")
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert "--port 0 for a free one" in errors


def test_an_address_that_others_reach_is_refused(penstock: Command) -> None:
    code, out, errors = penstock.run("catalog", "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert (code, out) == (2, "")
    assert "has no passwords" in errors
    assert "--open-to-network" in errors
