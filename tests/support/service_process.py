"""`penstock serve` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from penstock.home import Home
from penstock.processes import free_ports


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    home: Home
    spark_ui: str
    """The origin of Spark's pages."""

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=120)

    @contextlib.contextmanager
    def looking(self, path: str) -> Iterator[httpx.Client]:
        """Return a client at the origin of Spark's pages, admitted by the link requested at `path`."""
        with self.client() as service, httpx.Client(base_url=self.spark_ui, timeout=120) as browser:
            link = service.post(path)
            link.raise_for_status()
            assert browser.get(link.json()["url"]).status_code == 303
            yield browser


@contextlib.contextmanager
def serving(home: Home) -> Iterator[Served]:
    """`penstock serve` over a home, as an administrator uses it.

    It supervises applications without a supervisor, so it ends with the tests that need it: others kill supervisors.
    """
    port, spark_ui_port = free_ports(2)
    options = ["--port", str(port), "--spark-ui-port", str(spark_ui_port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "serve", *options],
        env={**os.environ, "PENSTOCK_HOME": str(home.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not is_ready(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield Served(
            url,
            (home.root / "service" / "admin.token").read_text("utf-8").strip(),
            home,
            f"http://127.0.0.1:{spark_ui_port}",
        )
    finally:
        process.terminate()
        process.wait(timeout=60)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
