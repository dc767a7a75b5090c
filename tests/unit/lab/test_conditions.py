"""The round trip of a distant store: added to an arm's own settings, the same for driver and executors."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidInput
from penstock.lab import conditions

INTERCEPTORS = "spark.hadoop.fs.s3a.audit.execution.interceptors"
JVM = "spark.executor.extraJavaOptions"


def test_driver_and_executors_wait_the_same_time_for_each_request() -> None:
    found = conditions.round_trip_settings("5ms")
    assert found[INTERCEPTORS] == "io.penstock.workloads.RoundTrip"
    assert found[JVM] == found["spark.driver.extraJavaOptions"] == "-Dpenstock.lab.round.trip=5000"
    assert conditions.round_trip_settings("250us")[JVM] == "-Dpenstock.lab.round.trip=250"


def test_an_arms_own_interceptors_and_options_stay() -> None:
    found = conditions.with_round_trip({INTERCEPTORS: "a.Counter", JVM: "-Da=1", "spark.x": "1"}, "1s")
    assert found[INTERCEPTORS] == "a.Counter,io.penstock.workloads.RoundTrip"
    assert found[JVM] == "-Da=1 -Dpenstock.lab.round.trip=1000000"
    assert found["spark.x"] == "1"


@pytest.mark.parametrize("own", [{}, {"spark.x": "1"}, {INTERCEPTORS: "a.Counter", JVM: "-Da=1  -Db=2"}])
def test_taken_away_again_what_is_left_is_what_there_was(own: dict[str, str]) -> None:
    assert conditions.without_round_trip(conditions.with_round_trip(own, "5ms")) == own
    assert conditions.without_round_trip(own) == own


def test_without_one_nothing_is_added() -> None:
    assert conditions.with_round_trip({"spark.x": "1"}, None) == {"spark.x": "1"}


@pytest.mark.parametrize("time", ["", "5", "0ms", "-1ms", "11s", "fast"])
def test_a_time_that_cannot_be_is_refused(time: str) -> None:
    with pytest.raises(InvalidInput, match="round trip") as refused:
        conditions.round_trip_settings(time)
    assert "5ms" in refused.value.fix
