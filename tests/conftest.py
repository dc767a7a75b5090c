"""What all tests share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.ceph.cluster import Ceph

# A busy machine is no defect: a test that takes 300 ms once says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


_SLOW_UNTIL = float(os.environ.get("PENSTOCK_TEST_SLOW_UNTIL", "inf"))
"""In seconds since 1970: slow tests that have not begun by then are skipped. `.ci/run` has only so much time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Last, so that where time is short it is these that are skipped.
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    for item in items:
        # Where servers run, a failure is seen to be one before it is called one: docs/why.md. The summary names it.
        if item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and time.time() > _SLOW_UNTIL:
        pytest.skip("slow, and the time for tests was over: PENSTOCK_TEST_SLOW_UNTIL")


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the embedded lake and database up, one for the whole session: starting them is most of a test.

    Its path has a space and a letter outside ASCII, as any user's may.
    """
    from penstock.clusters import machine, pagecache
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("Zuhause für Tests"))
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    yield home
    list(installation.down())
    # The rest of the home is pytest's to remove; what is in memory is not below it.
    pagecache.remove(machine.page_cache(home))


@pytest.fixture(scope="session")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    """A Ceph with six OSDs and two gateways in a home of its own, one for the whole session: making it takes a while.

    Whoever ends a daemon of it starts it again.
    """
    from penstock.lake.ceph import packages
    from penstock.lake.ceph.cluster import Ceph

    if lacking := packages.missing():
        pytest.skip(f"Ceph is not installed: there is no {', '.join(lacking)}")
    ceph = Ceph(Home(tmp_path_factory.mktemp("Ceph für “Tests” #1")))
    try:
        ceph.up()
        yield ceph
    finally:
        ceph.wipe()


@pytest.fixture(scope="session")
def records_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with nothing but the embedded database up: seconds where `shared_home` takes many."""
    from penstock.catalog.database import Database
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("records"))
    home.create()
    Database(home).up()
    yield home
    # What is submitted in it starts the lake, too.
    list(Installation(home).down())
