"""A Ceph cluster that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.home import Home
from penstock.lake.ceph import daemons
from penstock.lake.ceph.cluster import Ceph
from tests.support.quick_java import archives_tried, java_home, quick_java_machines

__all__ = ["archives_tried", "java_home", "quick_java_machines"]


@pytest.fixture(scope="session")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    """A Ceph cluster with six OSDs and two gateways in its own home, one per session: making it takes a while.

    A test that ends a daemon starts it again.
    """
    if lacking := daemons.missing_packages():
        pytest.skip(f"Ceph is not installed: there is no {', '.join(lacking)}")
    ceph = Ceph(Home(tmp_path_factory.mktemp("Ceph für “Tests” #1")))
    try:
        ceph.up()
        yield ceph
    finally:
        ceph.wipe()
