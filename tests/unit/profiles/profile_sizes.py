"""Cluster sizes for tests of profiles."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.model import ClusterSize, ProcessSize

GIB = 1 << 30


def cluster(*, executors: int = 1, cores: int = 2, gib: int = 4, driver_gib: int = 2) -> ClusterSize:
    return ClusterSize(ProcessSize(1, driver_gib * GIB), ProcessSize(cores, gib * GIB), executors)


LAPTOP = cluster()
DOCUMENTS = cluster(executors=100, cores=5, gib=40, driver_gib=40)
"""The largest cluster in the published papers: 100 executors of 5 cores and 40 GB."""

_PROCESSES = st.builds(
    ProcessSize, cores=st.integers(1, 96), memory_bytes=st.integers(512 << 20, 512 * GIB).map(lambda n: n & ~0xFFFFF)
)
SIZES = st.builds(ClusterSize, driver=_PROCESSES, executor=_PROCESSES, executors=st.integers(1, 400))
