"""Tests of this folder start Spark, on JVMs with minimal start-up cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.engine.engine import Engine
from penstock.home import Home
from tests.support import quick_java
from tests.support.command import Command
from tests.support.quick_java import archives_tried, java_home, quick_java_machines

__all__ = ["archives_tried", "java_home", "quick_java_machines"]


@pytest.fixture
def bare_home(tmp_path: Path, class_archives: Path) -> Iterator[Home]:
    """A separate home for clusters without a lake or a database."""
    home = Home(tmp_path / "mein Zuhause")
    quick_java.share_archives(home, class_archives)
    yield home
    machine.remove_tiers(machine.page_cache(home))


@pytest.fixture
def penstock(shared_home: Home) -> Command:
    return Command(shared_home)


@pytest.fixture
def engine(shared_home: Home) -> Engine:
    return Engine(shared_home)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(source: str) -> str:
        path = tmp_path / "Prüfung 100%, #1.py"
        path.write_text(source, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "go on, bitte"
    (tmp_path / "go on, bitte").touch()
