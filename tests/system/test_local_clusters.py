"""The local backend: the contract, and processes killed at the worst moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.clusters.base import Launch, Phase
from penstock.clusters.local import LocalBackend
from penstock.home import Home, read_json
from tests.support.cluster_backend_contract import COUNTS_AND_WAITS, ClusterBackendContract, until
from tests.support.waiting import processes_of, within


class TestLocalBackend(ClusterBackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> LocalBackend:
        return LocalBackend(Home(tmp_path / "mein Zuhause"))

    def test_killed_processes_are_told_apart(
        self, backend: LocalBackend, launch: Callable[..., Launch], tmp_path: Path
    ) -> None:
        """An executor is replaced; without its keeper a cluster is lost, and takes everything with it."""
        wanted = launch(COUNTS_AND_WAITS)
        handle = backend.handle(wanted.application_id)
        directory = tmp_path / "mein Zuhause" / "applications" / wanted.application_id
        backend.launch(wanted)
        until(backend, handle, Phase.RUNNING)
        assert (directory / "private" / "keys").read_text(encoding="utf-8") == "open sesame"
        assert directory.stat().st_mode & 0o077 == 0

        os.kill(status(directory)["executors"]["1"]["pid"], signal.SIGKILL)
        within(lambda: "2" in status(directory)["executors"])
        within(lambda: backend.observe(handle).lost_executors == 1)
        assert backend.observe(handle).phase is Phase.RUNNING

        os.kill(status(directory)["keeper"]["pid"], signal.SIGKILL)
        within(lambda: backend.observe(handle).phase is Phase.LOST)
        backend.stop(handle, grace_seconds=5)
        assert processes_of(wanted.application_id) == []
        backend.release(handle)
        assert not directory.exists()


def status(directory: Path) -> dict:  # type: ignore[type-arg]
    return read_json(directory / "cluster" / "status.json")  # type: ignore[no-any-return]
