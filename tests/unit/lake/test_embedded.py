"""The embedded lake's server: the wait for its start, and its end under the lock that removes its data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import processes
from penstock.home import Home
from penstock.lake import embedded
from penstock.lake.embedded import EmbeddedLake, Server


def test_no_command_can_start_the_server_on_data_that_are_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    lake = EmbeddedLake(home)
    lake.data.mkdir(parents=True)
    (lake.data / "volume.dat").write_bytes(b"rows")
    held: list[bool] = []
    remove = embedded.shutil.rmtree

    def removed(*arguments: Any, **more: Any) -> None:
        held.append(home.locked("lake"))
        remove(*arguments, **more)

    monkeypatch.setattr(embedded.shutil, "rmtree", removed)
    lake.wipe()
    assert held == [True]
    assert not lake.directory.exists()


class Clock:
    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, _: float) -> None:
        self.seconds += 1.0


@pytest.mark.parametrize(("share", "ready_after", "expected"), [(0.1, 200.0, True), (0.01, 200.0, False)])
def test_a_slow_start_on_a_busy_machine_is_distinguished_from_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, ready_after: float, expected: bool
) -> None:
    """A server that gets `share` of a core; a hung server gets almost none."""
    clock = Clock()
    monkeypatch.setattr(processes, "time", clock)
    monkeypatch.setattr(embedded, "core_seconds_of", lambda _: share * clock.seconds)
    monkeypatch.setattr(embedded, "_serves", lambda _: clock.seconds >= ready_after)
    alive = SimpleNamespace(pid=1, alive=lambda: True)
    server = Server(alive, None)  # type: ignore[arg-type]
    assert EmbeddedLake(Home(tmp_path))._await_ready(server, 60.0) is expected
    assert clock.seconds <= 201
