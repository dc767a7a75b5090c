import pytest

from penstock.lake.checks.probes import Answer, Conditional, Multipart, Race, RoundTrip, Staleness, _skew
from penstock.lake.checks.verdicts import (
    Outcome,
    judge_answer,
    judge_bytes,
    judge_clock,
    judge_conditional,
    judge_directories,
    judge_gateways,
    judge_listing,
    judge_multipart,
    judge_overwrites,
    judge_race,
    judge_ranges,
    judge_round_trip,
)


@pytest.mark.parametrize(
    ("skew", "outcome"),
    [
        (0.4, Outcome.OK),
        (-4.9, Outcome.OK),
        (6, Outcome.LIMITED),
        (-600, Outcome.LIMITED),
        (901, Outcome.FAILED),
        (-3600, Outcome.FAILED),
        (None, Outcome.LIMITED),
    ],
)
def test_a_clock_is_judged_by_what_s3_signatures_bear(skew: float | None, outcome: Outcome) -> None:
    assert judge_clock(Answer(0.01, skew)).outcome is outcome


def test_the_direction_of_a_skew_is_shown() -> None:
    assert "ahead" in judge_clock(Answer(0, 60.0)).measured
    assert "behind" in judge_clock(Answer(0, -60.0)).measured


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Conditional(412, True), Outcome.OK),
        (Conditional(409, True), Outcome.OK),
        (Conditional(200, False), Outcome.LIMITED),
        (Conditional(200, True), Outcome.LIMITED),
        (Conditional(412, False), Outcome.LIMITED),
        (Conditional(501, True), Outcome.LIMITED),
    ],
)
def test_a_condition_counts_only_where_it_is_refused_and_kept(seen: Conditional, outcome: Outcome) -> None:
    assert judge_conditional(seen, "a file").outcome is outcome


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Race(8, 1, True), Outcome.OK),
        (Race(8, 1, False), Outcome.LIMITED),
        (Race(8, 0, False), Outcome.LIMITED),
        (Race(8, 2, True), Outcome.LIMITED),
        (Race(8, 8, True), Outcome.LIMITED),
    ],
)
def test_a_race_has_exactly_one_winner_whose_bytes_stay(seen: Race, outcome: Outcome) -> None:
    assert judge_race(seen).outcome is outcome


def test_stale_listings_exclude_a_store_and_stale_overwrites_only_limit_it() -> None:
    assert judge_listing(Staleness(40, 1)).outcome is Outcome.FAILED
    assert judge_overwrites(Staleness(20, 1)).outcome is Outcome.LIMITED
    assert judge_listing(Staleness(40, 0)).outcome is judge_overwrites(Staleness(20, 0)).outcome is Outcome.OK


def test_a_store_that_keeps_empty_directories_is_used_and_reported() -> None:
    for known, words in ((True, "can be recreated"), (False, "add the lake again")):
        judged = judge_directories(linger=True, known=known)
        assert judged.outcome is Outcome.LIMITED
        assert words in judged.consequence
        assert judge_directories(linger=False, known=known).outcome is Outcome.OK


def test_wrong_bytes_exclude_a_store() -> None:
    for judged in (judge_bytes(False), judge_ranges(False), judge_multipart(Multipart(False, True, 1.0))):
        assert judged.outcome is Outcome.FAILED


def test_left_over_uploads_only_limit_a_store() -> None:
    assert judge_multipart(Multipart(True, False, 1.0)).outcome is Outcome.LIMITED


def test_times_are_shown_with_their_unit() -> None:
    assert judge_round_trip(RoundTrip(0.0005, 0.002, 100)).measured == "median 0.5 ms, p99 2.0 ms of 100 requests"
    assert judge_answer(Answer(1.25, None)).measured == "answers in 1.2 s"


def test_a_date_that_is_none_gives_no_skew() -> None:
    assert _skew(None, 0.0) is None
    assert _skew("yesterday", 0.0) is None
    assert _skew("Thu, 01 Jan 1970 00:01:00 GMT", 0.5) == pytest.approx(60.0)


def test_gateways_of_different_stores_are_named() -> None:
    assert judge_gateways(2, []).outcome is Outcome.OK
    apart = judge_gateways(2, [("http://a:1", "http://b:1")])
    assert apart.outcome is Outcome.FAILED
    assert "http://a:1" in apart.measured
    assert "http://b:1" in apart.measured
