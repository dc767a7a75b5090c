"""External stores: TLS with a private authority, many endpoints, and the bucket in the host name."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake import embedded as seaweed
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from tests.support.command import SMALL, Command
from tests.support.tls_front import Certificates, TlsFront, certificates, fronts

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
DOMAIN = "store.test"

# Many small files, so that every gateway receives some; then all of them are read.
WRITES_AND_READS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(0, 40000, 1, 8).write.mode("overwrite").parquet(sys.argv[1])
print("sum", spark.read.parquet(sys.argv[1]).selectExpr("sum(id)").first()[0])
spark.stop()
"""
SUM = "sum 799980000"


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("authority"), "localhost", DOMAIN, f"*.{DOMAIN}")


@pytest.fixture
def gateways(shared_home: Home, issued: Certificates) -> Iterator[list[TlsFront]]:
    store = urlsplit(EmbeddedLake(shared_home).ensure().endpoints[0])
    assert store.hostname is not None
    assert store.port is not None
    with fronts(issued, (store.hostname, store.port), 2) as made:
        yield made


def added(command: Command, name: str, *options: str) -> tuple[int, str]:
    """`penstock lake add` with the embedded lake's own keys."""
    own = Lakes(command.home).credentials_of(Lakes(command.home).get("embedded"))
    arguments = ("lake", "add", name, "--bucket", "penstock", "--credentials-from-stdin", *options)
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        input=f"{own.access_key}\n{own.secret_key}\n",
        capture_output=True,
        text=True,
        env={**os.environ, "PENSTOCK_HOME": str(command.home.root)},
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_store_behind_tls_of_an_own_authority_is_used_through_every_gateway(
    shared_home: Home, issued: Certificates, gateways: list[TlsFront], tmp_path: Path
) -> None:
    command, script = Command(shared_home), tmp_path / "writes.py"
    script.write_text(WRITES_AND_READS, encoding="utf-8")
    endpoints = [part for front in gateways for part in ("--endpoint", f"https://localhost:{front.port}")]
    code, err = added(command, "stranger", *endpoints)
    assert code == 5
    assert "is not trusted" in err
    assert "--ca-file" in err
    assert sum(front.connections for front in gateways) == 0  # nothing was sent to an untrusted server
    code, err = added(command, "guarded", *endpoints, "--ca-file", str(issued.authority))
    assert code == 0, err
    try:
        code, out, err = command.run("lake", "check", "--lake", "guarded", "--json")
        assert code == 0, out + err
        assert {row["feature"]: row["outcome"] for row in json.loads(out)["rows"]}["one store"] == "ok"
        before = [front.connections for front in gateways]
        code, out, err = command.run("run", *SMALL, "--lake", "guarded", str(script), "s3a://penstock/tls-test")
        assert code == 0, err
        assert SUM in out
        assert all(front.connections > seen for front, seen in zip(gateways, before, strict=True))
    finally:
        command.run("lake", "remove", "guarded")


def test_every_engine_trusts_the_store_s_own_authority(
    shared_home: Home, issued: Certificates, gateways: list[TlsFront]
) -> None:
    command = Command(shared_home)
    endpoints = [part for front in gateways for part in ("--endpoint", f"https://localhost:{front.port}")]
    code, err = added(command, "trusted", *endpoints, "--ca-file", str(issued.authority))
    assert code == 0, err
    try:
        made = "CREATE TABLE trusted USING parquet AS SELECT id FROM range(9)"
        command.ok("sql", *SMALL, "--lake", "trusted", made)
        for engine, memory in {"duckdb": "512m", "sail": "512m", "trino": "2g"}.items():
            before = sum(front.connections for front in gateways)
            size = ("--driver-cores", "1", "--driver-memory", memory)
            asked = ("--lake", "trusted", "--format", "csv", "SELECT sum(id) AS total FROM trusted")
            assert command.ok("sql", "--engine", engine, *size, *asked).split() == ["total", "36"], engine
            assert sum(front.connections for front in gateways) > before
    finally:
        command.ok("sql", *SMALL, "--lake", "trusted", "DROP TABLE IF EXISTS trusted")
        command.run("lake", "remove", "trusted")


@pytest.fixture
def hosted(tmp_path: Path, shared_home: Home, issued: Certificates, resolved: Path) -> Iterator[tuple[Lake, TlsFront]]:
    """A store that takes the bucket from the host name only, as a lake of the shared home."""
    own = Home(tmp_path / "store")
    with pytest.MonkeyPatch.context() as patch:
        plain = seaweed.server_command
        patch.setattr(seaweed, "server_command", lambda *a, **k: [*plain(*a, **k), f"-s3.domainName={DOMAIN}"])
        embedded = EmbeddedLake(own).ensure()
    try:
        with fronts(issued, ("127.0.0.1", urlsplit(embedded.endpoints[0]).port or 0), 1) as (front,):
            lake = Lake(
                name="hosted",
                endpoints=(f"https://{DOMAIN}:{front.port}",),
                bucket=embedded.bucket,
                credentials="file:hosted",
                path_style=False,
                ca_file=str(issued.authority),
            )
            yield Lakes(shared_home).add(lake, Lakes(own).credentials_of(embedded)), front
            Lakes(shared_home).remove("hosted")
    finally:
        EmbeddedLake(own).down()


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Resolve unregistered names to this machine: here by the resolver, in a JVM by the returned hosts file."""
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        local = isinstance(host, str) and host.endswith(DOMAIN)
        return real("127.0.0.1" if local else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    hosts = tmp_path / "hosts"
    names = (DOMAIN, f"penstock.{DOMAIN}", "localhost", socket.gethostname())
    hosts.write_text(f"127.0.0.1 {' '.join(names)}\n", encoding="ascii")
    return hosts


def test_a_bucket_in_the_hosts_name_is_used_with_tls(
    shared_home: Home, hosted: tuple[Lake, TlsFront], resolved: Path, tmp_path: Path
) -> None:
    lake, front = hosted
    script = tmp_path / "writes.py"
    script.write_text(WRITES_AND_READS, encoding="utf-8")
    # The engine runs in this process, whose resolver is patched.
    engine = Engine(shared_home)
    naming = f"-Djdk.net.hosts.file={resolved}"
    asked = ApplicationSpec(
        application=str(script),
        arguments=(f"{lake.root}/hosted-test",),
        size=SIZE,
        name=lake.name,
        lake=lake.name,
        settings={"spark.driver.extraJavaOptions": naming, "spark.executor.extraJavaOptions": naming},
    )
    ended = engine.supervise(engine.submit(asked).id)
    assert ended.state is State.FINISHED, ended.reason
    assert SUM in engine.artifacts.load(ended.id, "driver.out").decode()
    assert front.connections > 0
