"""The layout of a Ceph cluster, and the layouts that are refused before anything is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.lake.ceph.layout import ERASURE, REPLICATED, Code, Layout
from penstock.units import GIB


def test_six_osds_keep_three_replicas_or_four_chunks_and_two_of_parity() -> None:
    layout = Layout.validated()
    replicated, erasure = layout.placements().values()
    assert (replicated.kind, replicated.protection, replicated.raw_factor) == (REPLICATED, "3x", 3.0)
    assert (erasure.kind, erasure.protection, erasure.raw_factor) == (ERASURE, "4+2", 1.5)


def test_an_erasure_code_that_is_asked_for_is_the_default() -> None:
    layout = Layout.validated(osds=4, erasure="2+2")
    assert list(layout.placements()) == [ERASURE, REPLICATED]
    assert layout.placements()[ERASURE].raw_factor == 2.0


def test_fewer_osds_have_a_code_that_fits_them() -> None:
    assert Layout.validated(osds=3).code == Code(2, 1)
    assert Layout.validated(osds=5).code == Code(2, 1)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"osds": 2}, "three replicas"),
        ({"osds": 13}, "at most 12"),
        ({"gateways": 0}, "1 to 8"),
        ({"gateways": 9}, "1 to 8"),
        ({"osd_bytes": GIB}, "2 to 1024 GiB"),
        ({"osds": 5, "erasure": "4+2"}, "the cluster has 5"),
        ({"erasure": "10+4"}, "the cluster has 6"),
        ({"erasure": "4-2"}, "data chunks"),
        ({"erasure": "1+2"}, "at least two"),
        ({"erasure": "4+0"}, "parity"),
    ],
)
def test_an_impossible_layout_is_refused_with_a_remedy(asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Layout.validated(**asked)
    assert reason in caught.value.why
    assert caught.value.fix


@given(st.integers(3, 12), st.sampled_from([None, "2+1", "2+2", "4+2", "8+3"]))
def test_placement_groups_are_powers_of_two_within_what_ceph_allows_on_an_osd(osds: int, erasure: str | None) -> None:
    if erasure and Code.parse(erasure).width > osds:
        return
    pools = Layout.validated(osds=osds, erasure=erasure).pools()
    assert all(pool.groups & (pool.groups - 1) == 0 for pool in pools)
    shards = sum(pool.groups * (pool.code.width if pool.code else 3) for pool in pools)
    assert shards / osds < 250  # mon_max_pg_per_osd
    assert len({pool.name for pool in pools}) == len(pools)


@given(st.integers(3, 12), st.integers(2, 100))
def test_a_full_bucket_leaves_the_osds_below_where_ceph_lets_writers_wait(osds: int, size: int) -> None:
    layout = Layout.validated(osds=osds, osd_bytes=size * GIB)
    for placement in layout.placements().values():
        assert layout.quota_bytes(placement) * placement.raw_factor <= 0.85 * layout.raw_bytes


def test_metadata_have_files_of_their_own_only_on_a_medium_of_their_own() -> None:
    assert [device.name for device in Layout.validated().devices()] == ["block"]
    apart = Layout.validated(metadata_directory=Path("/fast"), osd_bytes=32 * GIB).devices()
    assert {device.name: device.bytes for device in apart} == {
        "block": 32 * GIB,
        "block.db": 2 * GIB,
        "block.wal": GIB // 2,
    }


@given(
    st.builds(
        Layout.validated,
        osds=st.integers(6, 12),
        gateways=st.integers(1, 8),
        erasure=st.sampled_from([None, "4+2", "3+2"]),
        osd_bytes=st.integers(2 * GIB, 1024 * GIB),
        data_directory=st.none() | st.just(Path("/d")),
        metadata_directory=st.none() | st.just(Path("/m")),
    )
)
def test_a_layout_is_read_as_it_was_written(layout: Layout) -> None:
    assert Layout.from_json(layout.to_json()) == layout
    assert Layout.validated(**layout.arguments()) == layout
