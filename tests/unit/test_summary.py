"""The lake's I/O metrics in a summary."""

from __future__ import annotations

from typing import Any

from penstock.summary import IoMetrics


def _use(**lake: int) -> IoMetrics:
    summary: dict[str, Any] = {
        "s3_requests": {"GET": 1000, "PUT": 34, "HEAD": 0},
        "s3_request_us": {"GET": 9_000_000, "PUT": 1_340_000},
        "s3_retries": 2,
        "lake": lake,
    }
    use = IoMetrics.of(summary)
    assert use
    return use


def test_an_application_without_a_spark_context_has_used_no_lake() -> None:
    assert IoMetrics.of({"cpu_seconds": 0.1}) is None


def test_a_summary_of_an_older_release_has_requests_and_no_hit_rate() -> None:
    use = IoMetrics.of({"s3_requests": {"GET": 3}})
    assert use and use.requests == {"GET": 3} and use.retries == 0
    assert use.hit_rate is None and use.milliseconds_per_request is None


def test_bytes_that_had_to_be_fetched_are_no_hits_wherever_they_were_read_from() -> None:
    cold = _use(bytes_from_memory=900, bytes_from_store=100, bytes_fetched=1000)
    assert cold.hit_rate == 0 and cold.cached_bytes == 0 and cold.read == 1000
    assert _use(bytes_from_memory=600, bytes_from_disk=200, bytes_from_store=200).hit_rate == 0.8


def test_fetching_more_than_is_read_is_no_less_than_no_hit() -> None:
    assert _use(bytes_from_store=100, bytes_fetched=5000).hit_rate == 0


def test_a_reader_past_the_cache_has_read_what_was_received_and_no_hit_rate() -> None:
    use = _use(bytes_received=5000)
    assert use.read == 5000 and use.hit_rate is None
