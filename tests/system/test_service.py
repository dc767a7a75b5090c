"""Commands through a service behave as without one; TLS, and a service's shutdown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import Client
from penstock.engine.engine import Engine
from penstock.errors import ServiceError
from penstock.home import Home
from penstock.model import State
from penstock.processes import free_ports
from tests.support.command import SMALL
from tests.support.service_process import Served


def penstock(home: Home, *arguments: str, server: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PENSTOCK_HOME": str(home.root), **({"PENSTOCK_SERVER": server} if server else {})}
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)


def test_an_application_of_this_machine_runs_through_the_service(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "mein Program.py"
    program.write_text(
        "import sys\nfrom pyspark.sql import SparkSession\nfrom helper import word\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "print(word, spark.range(100).count(), sys.argv[1:])\nspark.stop()\nsys.exit(3)\n"
    )
    (tmp_path / "helper.py").write_text("word = 'counted'\n")
    helper = ["--py-files", str(tmp_path / "helper.py")]
    ran = penstock(served.home, "run", *SMALL, *helper, str(program), "a b", "--c", server=served.url)
    assert (ran.stdout, ran.returncode) == ("counted 100 ['a b', '--c']\n", 3), ran.stderr
    alone = ["--engine", "sail", "--driver-cores", "1", "--driver-memory", "512m", "--name", "alone"]
    in_sail = penstock(served.home, "run", *alone, *helper, str(program), "a b", "--c", server=served.url)
    assert (in_sail.stdout, in_sail.returncode) == (ran.stdout, 3), in_sail.stderr
    # Both use one engine: applications from HTTP are visible without it, and the other way round.
    listed = json.loads(penstock(served.home, "apps", "--json").stdout)
    (found,) = [one for one in listed if one["name"] == "mein Program.py"]
    assert (found["state"], found["exit_code"]) == ("failed", 3)
    with Client(served.url, token=served.token) as client:
        ended = client.application(found["id"])
        assert (ended.id, ended.state) == (found["id"], State.FAILED)
        followed = b"".join(client.follow(ended.id, "driver.out"))
        assert followed == ran.stdout.encode()
        assert client.log(ended.id, "driver.out", start=8) == followed[8:]


def test_statements_are_answered_through_the_service_and_again(served: Served) -> None:
    before = {one.id for one in Engine(served.home).list()}
    asked = penstock(served.home, "sql", *SMALL, "--format", "csv", "SELECT 1 AS a; SELECT 'x' AS b", server=served.url)
    assert (asked.stdout, asked.returncode) == ("a\n1\n\nb\nx\n", 0), asked.stderr
    (application,) = {one.id for one in Engine(served.home).list()} - before
    again = penstock(served.home, "rerun", "--json", application, server=served.url)
    assert [result["rows"] for result in json.loads(again.stdout)] == [[[1]], [["x"]]], again.stderr


def test_a_command_about_this_machine_is_not_done_here_for_another(served: Served) -> None:
    refused = penstock(served.home, "down", server=served.url)
    assert refused.returncode == 2
    assert "works on this machine only" in refused.stderr


@dataclass(frozen=True)
class Secured:
    url: str
    certificate: Path
    home: Home
    process: subprocess.Popen[bytes]


@pytest.fixture
def secured(records_home: Home, tmp_path: Path) -> Iterator[Secured]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=penstock", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    key.chmod(0o600)
    port, spark_ui_port = free_ports(2)
    ports = ["--port", str(port), "--spark-ui-port", str(spark_ui_port)]
    files = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "serve", *ports, *files],
        env={**os.environ, "PENSTOCK_HOME": str(records_home.root)},
        stderr=subprocess.DEVNULL,
    )
    yield Secured(f"https://127.0.0.1:{port}", certificate, records_home, process)
    process.kill()
    process.wait()


def test_over_tls_a_client_knows_the_service_by_its_certificate_and_it_ends_in_order(secured: Secured) -> None:
    token = (penstock(secured.home, "token", "create", "tls", "--scope", "read")).stdout.strip()
    with Client(secured.url, token=token, ca_file=secured.certificate) as client:
        deadline = time.monotonic() + 30
        while True:
            try:
                assert client.get("/v1/self")["scopes"] == ["read"]
                break
            except ServiceError:
                assert time.monotonic() < deadline
        with Client(secured.url, token=token) as trusting, pytest.raises(ServiceError, match="does not answer"):
            trusting.get("/v1/self")
    secured.process.send_signal(signal.SIGTERM)
    assert secured.process.wait(20) == 0
