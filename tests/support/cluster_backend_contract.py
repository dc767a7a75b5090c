"""The contract of every `ClusterBackend`: a test class inherits it and gives the fixture `backend`, an empty one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from penstock.clusters.backend import ClusterBackend, Handle, Launch, Observation, Phase
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from tests.support.waiting import processes_of, within

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)

SAYS_AND_ENDS = """
import os, sys
print("to out", sys.argv[1], os.environ["GREETING"])
print("to err", file=sys.stderr)
sys.exit(3)
"""
COUNTS_AND_WAITS = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("counted", spark.sparkContext.parallelize(range(10), 2).count(), flush=True)
time.sleep(600)
"""


# After its count the application serves a page on its loopback, as a session does.
COUNTS_AND_SERVES = """
import http.server, os
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("counted", spark.sparkContext.parallelize(range(10), 2).count(), flush=True)
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the driver")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
with open(os.environ["PUBLISHED"] + "/port", "w") as published:
    published.write(str(server.server_port))
server.serve_forever()
"""


class ClusterBackendContract:
    @pytest.fixture
    def launch(self, tmp_path: Path) -> Callable[..., Launch]:
        def make(source: str, *arguments: str) -> Launch:
            script = tmp_path / "ein Größenvergleich, 100%.py"
            script.write_text(source, encoding="utf-8")
            spec = ApplicationSpec(application=str(script), size=SIZE, name="contract", arguments=arguments)
            return Launch(
                application_id=f"app-test-{uuid.uuid4().hex[:8]}",
                spec=spec,
                settings={},
                environment={"GREETING": "grüß Gott", "KEYS": "{private}/keys", "PUBLISHED": "{published}"},
                private_files={"keys": "open sesame"},
            )

        return make

    def left_of(self, backend: ClusterBackend, application_id: str) -> Sequence[object]:
        """Return the processes of the cluster's driver and executors that still run."""
        return processes_of(application_id)

    def test_an_application_runs_once_with_what_it_was_given_and_release_leaves_nothing(
        self, backend: ClusterBackend, launch: Callable[..., Launch]
    ) -> None:
        wanted = launch(SAYS_AND_ENDS, 'ein "Wort" mit ß')
        handle = backend.handle(wanted.application_id)
        backend.launch(wanted)
        backend.launch(wanted)
        assert until(backend, handle, Phase.ENDED).exit_code == 3
        backend.launch(wanted)
        assert backend.read(handle, "driver.out", 0).decode() == 'to out ein "Wort" mit ß grüß Gott\n'
        assert backend.read(handle, "driver.err", 0).decode() == "to err\n"
        kept = backend.collect(handle)
        assert (kept / "driver.out").read_text(encoding="utf-8").count("to out") == 1
        assert (kept / "summary.json").exists()
        backend.release(handle)
        backend.release(handle)
        assert not kept.exists()
        backend.replace_private_file(handle, "keys", "too late")
        assert backend.private_file(handle, "keys") is None

    def test_a_running_cluster_is_observed_reached_and_stopped_with_all_its_processes(
        self, backend: ClusterBackend, launch: Callable[..., Launch]
    ) -> None:
        wanted = replace(launch(COUNTS_AND_SERVES), settings={"spark.ui.enabled": "false"})
        handle = backend.handle(wanted.application_id)
        backend.launch(wanted)
        running = until(backend, handle, Phase.RUNNING)
        assert running.spark_application_id
        within(lambda: b"counted 10" in backend.read(handle, "driver.out", 0))
        backend.replace_private_file(handle, "keys", "open barley")
        assert backend.private_file(handle, "keys") == "open barley"

        self.pages_open_at_the_first_look_and_for_nobody_without_their_key(backend, handle)
        # The published address reaches the server on the driver's loopback.
        within(lambda: bool(backend.private_file(handle, "port")))
        with backend.forward_port(handle, int(backend.private_file(handle, "port") or 0)) as here:
            assert httpx.get(f"http://127.0.0.1:{here}/", timeout=60).text == "from the driver"

        backend.stop(handle, grace_seconds=5)
        assert self.left_of(backend, wanted.application_id) == []
        assert backend.web_interface(handle) is None
        assert backend.private_file(handle, "port") is None or backend.shares_files
        ended = backend.observe(handle)
        assert ended.phase is Phase.ENDED
        assert ended.exit_code not in (None, 0)
        assert list((backend.collect(handle) / "events").iterdir())
        backend.release(handle)

    def pages_open_at_the_first_look_and_for_nobody_without_their_key(
        self, backend: ClusterBackend, handle: Handle
    ) -> None:
        within(lambda: backend.web_interface(handle) is not None)
        pages = backend.web_interface(handle)
        assert pages is not None
        assert pages.key is not None
        url = f"http://{pages.host}:{pages.port}/jobs/"
        assert httpx.get(url, timeout=60).status_code == 403
        assert "contract" in httpx.get(url, headers={"X-Penstock-Key": pages.key}, timeout=60).text

    def test_what_never_was_can_be_stopped_and_released(self, backend: ClusterBackend) -> None:
        handle = backend.handle("app-test-never")
        backend.stop(handle, grace_seconds=1)
        assert backend.observe(handle).phase is Phase.LOST
        assert backend.private_file(handle, "secret") is None
        assert backend.web_interface(handle) is None
        backend.release(handle)


def until(backend: ClusterBackend, handle: object, phase: Phase) -> Observation:
    within(lambda: backend.observe(handle).phase in (phase, Phase.ENDED, Phase.LOST))  # type: ignore[arg-type]
    seen = backend.observe(handle)  # type: ignore[arg-type]
    assert seen.phase is phase, backend.read(handle, "driver.err", 0).decode()  # type: ignore[arg-type]
    return seen
