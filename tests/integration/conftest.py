"""What integration tests share: records, a service that runs, and the Pythons of the clients that use it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from penstock.catalog.database import Database
from penstock.engine.records import Records
from penstock.home import Home
from penstock.processes import free_ports


@pytest.fixture
def database(records_home: Home) -> Iterator[sa.Engine]:
    engine = Database(records_home).engine()
    yield engine
    engine.dispose()


@pytest.fixture
def records(database: sa.Engine) -> Iterator[Records]:
    """Of an engine of its own, which nobody else's applications belong to."""
    owner = f"test:{uuid.uuid4()}"
    yield Records(database, owner)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM applications WHERE engine = :owner"), {"owner": owner})


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    home: Home

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=120)


@pytest.fixture(scope="module")
def served(shared_home: Home) -> Iterator[Served]:
    """`penstock serve` over the shared home, as an administrator uses it.

    It looks after what nobody else does: no longer there than the tests that want it, for others kill supervisors.
    """
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(port)],
        env={**os.environ, "PENSTOCK_HOME": str(shared_home.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _ready(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield Served(url, (shared_home.root / "service" / "admin.token").read_text("utf-8").strip(), shared_home)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def python_with(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """`python_with(module, *pip_install)`: the Python of an environment of its own in which `module` can be imported,
    made by these arguments of `pip install` one after the other. Made once and kept in pytest's cache; the test is
    skipped where it cannot be made."""

    def made(module: str, *installs: list[str]) -> Path:
        cache = request.config.cache
        assert cache is not None
        directory = Path(cache.mkdir(f"python-with-{module}"))
        python = directory / "bin" / "python"
        if not _imports(python, module):
            subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            for install in installs:
                ran = subprocess.run([*pip, *install], check=False, capture_output=True, text=True)
                if ran.returncode:
                    pytest.skip(f"{install[-1]} cannot be installed: {ran.stderr.strip().splitlines()[-1:]}")
        return python

    return made


def _imports(python: Path, module: str) -> bool:
    return python.exists() and not subprocess.run([python, "-c", f"import {module}"], check=False).returncode
