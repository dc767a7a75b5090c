"""The times at which temporary credentials are renewed and given up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.model import Credentials
from penstock.lake.sts import Lease, Reach, is_lost, make_lease, renewal_at, session_policy

KEYS = Credentials("AK", "secret", "token")
HOUR = Lease(KEYS, issued_at=1000.0, expires_at=4600.0)

leases = st.builds(
    lambda start, length: Lease(KEYS, start, start + length),
    st.floats(0, 2e9),
    st.floats(10, 43200),
)


def test_half_of_a_lease_is_left_for_an_engine_or_a_store_that_is_away() -> None:
    assert renewal_at(HOUR) == 1000 + 1800


def test_failures_are_followed_by_growing_pauses() -> None:
    pauses = [renewal_at(HOUR, failures, failed_at=2800.0) - 2800 for failures in range(1, 7)]
    assert pauses == [30, 60, 120, 240, 300, 300]


@given(leases, st.integers(1, 1000), st.floats(0, 2))
def test_one_try_is_just_as_the_lease_ends_and_none_is_in_the_past(held: Lease, failures: int, part: float) -> None:
    failed_at = held.issued_at + part * held.seconds
    due = renewal_at(held, failures, failed_at=failed_at)
    assert failed_at < due <= max(failed_at + 1, held.expires_at)


@given(leases)
def test_a_store_that_always_fails_is_asked_often_enough_but_not_without_end(held: Lease) -> None:
    at, tries = renewal_at(held), []
    while not is_lost(held, at=at):
        tries.append(at)
        at = renewal_at(held, len(tries), failed_at=at)
    assert 8 <= sum(at < held.expires_at for at in tries) <= 12
    assert len(tries) <= 140


def test_hope_lasts_as_long_as_requests_wait_for_newer_credentials() -> None:
    assert not is_lost(HOUR, at=4629.9)
    assert is_lost(HOUR, at=4630.0)
    assert renewal_at(HOUR, 12, failed_at=4610.0) == 4611


@given(st.floats(-1e6, 1e6))
def test_a_clock_that_differs_from_the_stores_changes_nothing(offset: float) -> None:
    asked_at, seconds = 1.7e9, 900.0
    there = asked_at + offset
    held = make_lease(KEYS, requested_at=asked_at, store_time=there, expires_at=there + seconds)
    assert abs(held.expires_at - (asked_at + seconds)) < 1e-3


def test_without_the_stores_time_its_word_is_taken() -> None:
    assert make_lease(KEYS, requested_at=5.0, store_time=None, expires_at=905.0).expires_at == 905.0


def test_the_session_policy_allows_the_lakes_bucket_and_no_other() -> None:
    statements = session_policy("data")["Statement"]
    assert isinstance(statements, list)
    assert [statement["Resource"] for statement in statements] == [["arn:aws:s3:::data"], ["arn:aws:s3:::data/*"]]
    assert not any("*" in action for statement in statements for action in statement["Action"])


def test_a_session_policy_for_one_table_lists_and_opens_what_is_below_it() -> None:
    prefix = "warehouse/sales.db/orders/"
    listing, objects = session_policy("data", Reach(prefix, writing=False))["Statement"]  # type: ignore[misc]
    assert (listing["Action"], listing["Resource"]) == (["s3:ListBucket"], ["arn:aws:s3:::data"])
    assert listing["Condition"] == {"StringLike": {"s3:prefix": [f"{prefix}*"]}}
    assert (objects["Action"], objects["Resource"]) == (["s3:GetObject"], [f"arn:aws:s3:::data/{prefix}*"])
    writing = session_policy("data", Reach(prefix))["Statement"][1]  # type: ignore[index]
    assert {"s3:PutObject", "s3:DeleteObject"} < set(writing["Action"])
