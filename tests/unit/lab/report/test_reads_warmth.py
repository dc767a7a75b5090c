"""The cache section shows, round by round, whether a second application on a fresh cluster began warm."""

from __future__ import annotations

from typing import Any

from penstock.lab.records import Run
from penstock.lab.report.elements import reads
from tests.unit.lab import lab_runs as made


def power(hits: int, misses: int) -> dict[str, Any]:
    lake = {
        "page_hits": hits,
        "page_misses": misses,
        "bytes_from_memory": hits * 10**6,
        "bytes_from_disk": 0,
        "bytes_from_store": misses * 10**6,
    }
    return made.application("power", core_seconds=1, s3_requests={"GET": misses}, lake=lake)


def a_run(*rounds: dict[str, Any]) -> Run:
    return made.run("tpcds", [s for number, one in enumerate(rounds) for s in made.repetition(number, [one])])


def test_every_application_has_its_own_row_and_the_first_is_not_averaged_with_the_warm_ones() -> None:
    (section,) = reads.cache_sections([a_run(power(0, 50), power(97, 3))], ["Penstock"])
    cold, warm = section.parts[0].rows  # type: ignore[union-attr]
    assert cold[:6] == ("Penstock", "warm-up", "power", "0.0%", "50", "0.0%")
    assert warm[:6] == ("Penstock", "1", "power", "97.0%", "100", "97.0%")
    assert warm[-1] == "3"


def test_nothing_is_said_of_applications_that_read_past_the_cache() -> None:
    plain = made.application("power", core_seconds=1, s3_requests={"GET": 4}, lake={"bytes_received": 9})
    assert reads.cache_sections([a_run(plain)], ["S3A"]) == []
