"""The health computed from the NameNode's beans (of Hadoop 3.4.2, shortened)."""

from __future__ import annotations

import pytest

from penstock.lake.hdfs.servers import parse_health

SYSTEM = {
    "FSState": "Operational",
    "NumLiveDataNodes": 2,
    "CapacityTotal": 541106348032,
    "CapacityUsed": 49152,
    "CapacityRemaining": 84036730880,
    "FilesTotal": 1,
    "BlocksTotal": 0,
}
BLOCKS = {"UnderReplicatedBlocks": 3, "MissingBlocks": 1}


def test_capacity_is_raw_and_missing_replicas_are_reported() -> None:
    health = parse_health(SYSTEM, BLOCKS)
    assert (health.live, health.capacity_bytes, health.used_bytes) == (2, 541106348032, 49152)
    assert (health.under_replicated, health.missing) == (3, 1)


@pytest.mark.parametrize(("state", "safe"), [("Operational", False), ("safeMode", True)])
def test_safe_mode_is_whatever_is_not_operational(state: str, safe: bool) -> None:
    assert parse_health({**SYSTEM, "FSState": state}, BLOCKS).safe_mode is safe
