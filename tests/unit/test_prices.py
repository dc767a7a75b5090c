"""A cluster's cost is arithmetic that a reader can check by hand, and a wrong price list fails no application."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.model import Cost, State, promised
from penstock.prices import OWN_PRICES, Pricing, cluster_cost
from tests.unit.engine.engine_making import GIB, START, after, application, size

RENT = "currency: EUR\ncompute:\n  rent_per_core_hour: 0.05\n  rent_per_gib_hour: 0.01\n"


@pytest.fixture
def pricing(tmp_path: Path) -> Pricing:
    (tmp_path / OWN_PRICES).write_text(RENT)
    return Pricing(Home(tmp_path))


def test_a_cluster_costs_its_promise_by_the_hour(pricing: Pricing) -> None:
    promise = promised(size())
    per_hour = promise.cores * 0.05 + promise.memory_bytes / GIB * 0.01
    cost = cluster_cost(size(), timedelta(minutes=90), pricing.prices())
    assert cost.amount == pytest.approx(1.5 * per_hour)
    assert cost.currency == "EUR"


def test_a_running_application_costs_more_by_the_minute_and_an_ended_one_does_not(pricing: Pricing) -> None:
    running = application(State.RUNNING, admitted_at=START, cost=Cost(1.0, "EUR"))
    sooner, later = pricing.accrued_cost(running, after(60)), pricing.accrued_cost(running, after(120))
    assert sooner is not None
    assert later is not None
    assert later.amount - 1 == pytest.approx(2 * (sooner.amount - 1))
    ended = application(State.FINISHED, admitted_at=START, cost=Cost(2.0, "EUR"))
    assert pricing.accrued_cost(ended, after(10**6)) == Cost(2.0, "EUR")


def test_what_never_had_a_cluster_costs_nothing(pricing: Pricing) -> None:
    assert pricing.accrued_cost(application(State.WAITING), after(60)) is None
    assert pricing.attempt_cost(application(State.WAITING), after(60)) is None


def test_a_clock_that_went_back_earns_nothing(pricing: Pricing) -> None:
    cost = pricing.attempt_cost(application(State.RUNNING, admitted_at=after(60)), START)
    assert cost == Cost(0.0, "EUR")


def test_a_mistake_in_the_price_file_fails_no_application_and_is_reported_on_request(tmp_path: Path) -> None:
    (tmp_path / OWN_PRICES).write_text("compute: {price_per_core: much}\n")
    pricing = Pricing(Home(tmp_path))
    assert pricing.attempt_cost(application(State.RUNNING, admitted_at=START), after(60)) is None
    with pytest.raises(InvalidInput, match=OWN_PRICES):
        pricing.prices()
