"""Other engines and libraries use the lake with nothing but their exported file and the variables that it names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb

from penstock.runtime.jvm import find_java, penstock_jars, spark_jars
from tests.support.command import Command
from tests.support.iceberg_clients import catalog, duckdb_extensions
from tests.support.service_process import Served

PYICEBERG = """
import pyarrow
from pyiceberg.catalog import load_catalog
lake = load_catalog("lake")
lake.create_namespace("attached")
table = lake.create_table("attached.orders", schema=pyarrow.schema([("id", pyarrow.int64())]))
table.append(pyarrow.table({"id": [1, 2, 3]}))
"""
DUCKDB = """
import os, sys, duckdb
with duckdb.connect(config={"extension_directory": sys.argv[2]}) as client:
    client.execute("SET VARIABLE penstock_token = ?", [os.environ["PENSTOCK_TOKEN"]])
    client.execute(open(sys.argv[1]).read())
    client.execute("INSERT INTO lake.attached.orders VALUES (10)")
    print(client.execute("SELECT sum(id) FROM lake.attached.orders").fetchone()[0])
    print(client.execute("SELECT count(*) FROM glob('s3://penstock/warehouse/attached.db/**')").fetchone()[0] > 2)
"""
SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("MERGE INTO lake.attached.orders o USING (SELECT 10L AS id) s ON o.id = s.id WHEN MATCHED THEN DELETE")
print(spark.sql("SELECT sum(id) FROM lake.attached.orders").first()[0])
"""
SAIL = """
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
spark = SparkSession.builder.remote("sc://127.0.0.1:{}".format(server.listening_address[1])).getOrCreate()
spark.sql("INSERT INTO attached.orders VALUES (100)")
print(spark.sql("SELECT sum(id) FROM lake.attached.orders").collect()[0][0])
"""
BOTO3 = """
import boto3
store = boto3.client("s3")
keys = [found["Key"] for found in store.list_objects_v2(Bucket="penstock", Prefix="warehouse/attached.db/")["Contents"]]
print(any(key.endswith(".parquet") for key in keys))
"""


def test_each_client_uses_the_lake_with_its_file_and_variables(
    penstock: Command, served: Served, tmp_path: Path
) -> None:
    def run(
        client: str,
        file: str,
        program: str,
        *arguments: str,
        launcher: tuple[str, ...] = (sys.executable,),
        **named_by_hand: str,
    ) -> list[str]:
        path = tmp_path / file
        penstock.ok("lake", "export", "client", client, "--service", served.url, "--output", str(path))
        named = dict(re.findall(r"export (\w+)=(.*)", path.read_text(encoding="utf-8")))
        variables = {
            name: served.token if name.endswith("TOKEN") else value.strip("'") for name, value in named.items()
        }
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        # Without a locale, Java opens no file in the home, whose name is not in ASCII.
        usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        ran = subprocess.run(
            [*launcher, str(tmp_path / "program.py"), *arguments],
            env={**usual, "JAVA_HOME": str(find_java().home), **variables, **named_by_hand},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    try:
        run("pyiceberg", ".pyiceberg.yaml", PYICEBERG)
        assert run("duckdb", "lake.sql", DUCKDB, str(tmp_path / "lake.sql"), extensions(tmp_path)) == ["16", "True"]
        assert run("spark", "lake.conf", SPARK, launcher=plain_spark(tmp_path / "lake.conf"))[-1] == "6"
        # A shell fills in the token.
        sourcing = ("/bin/sh", "-c", '. "$0" && exec "$@"', str(tmp_path / "lake.sh"), sys.executable)
        assert run("sail", "lake.sh", SAIL, launcher=sourcing) == ["106"]
        assert run("aws", "aws.conf", BOTO3, AWS_CONFIG_FILE=str(tmp_path / "aws.conf")) == ["True"]
    finally:
        catalog(served).purge_table("attached.orders")
        catalog(served).drop_namespace("attached")


def extensions(directory: Path) -> str:
    """DuckDB's extensions where INSTALL finds them: nothing is downloaded."""
    with duckdb.connect() as client:
        platform = client.execute("PRAGMA platform").fetchone()
        version = client.execute("SELECT version()").fetchone()
    assert platform is not None
    assert version is not None
    installed = directory / "extensions" / version[0] / platform[0]
    installed.mkdir(parents=True)
    for file in duckdb_extensions():
        shutil.copy(file, installed)
    return str(directory / "extensions")


def plain_spark(properties: Path) -> tuple[str, ...]:
    """Spark's own launcher, with the packages' jars from where they are instead of from Maven's repository."""
    jars = ",".join(str(jar) for jar in penstock_jars().glob("*.jar") if not jar.name.startswith("penstock"))
    options = ["--master", "local[1]", "--driver-memory", "512m", "--properties-file", str(properties)]
    settings = ["--conf", "spark.ui.enabled=false", "--conf", "spark.jars.packages=", "--jars", jars]
    return (str(spark_jars().parent / "bin" / "spark-submit"), *options, *settings)
