"""Amounts as people read them."""

from __future__ import annotations

from penstock.cli.console import lake_line
from penstock.engine.lakeuse import LakeUse


def _use(**counts: int) -> LakeUse:
    return LakeUse({"GET": 1000, "PUT": 34, "HEAD": 0}, 2, {"GET": 9_000_000, "PUT": 1_340_000}, counts)


def test_the_line_says_where_bytes_came_from_and_never_rounds_up_to_all() -> None:
    line = lake_line(_use(bytes_from_memory=199 << 20, bytes_from_disk=1 << 20, bytes_from_store=1 << 10))
    assert line == (
        "1 034 requests (GET 1 000, PUT 34), 10.0 ms each, 200.0 MiB read, 99 % from cache "
        "(memory 199.0 MiB, disk 1.0 MiB), 2 retries"
    )


def test_what_went_wrong_is_told_only_where_it_did() -> None:
    assert "slow down" not in lake_line(_use())
    assert lake_line(_use(answers_throttled=3)).endswith("2 retries, 3 answers “slow down”")
