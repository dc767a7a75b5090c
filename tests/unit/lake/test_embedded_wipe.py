"""The embedded lake's data are removed in the same turn in which its server was ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.home import Home
from penstock.lake import embedded
from penstock.lake.embedded import EmbeddedLake


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
