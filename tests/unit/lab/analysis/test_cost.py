"""Costs are arithmetic that a reader can do by hand, and reproduce the published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import RunCost
from penstock.prices import Amortisation, Compute, Medium, Power, Prices, Storage
from tests.unit.lab import lab_runs

PRICES = Prices(
    currency="USD",
    date="2026-11-01",
    amortisation=Amortisation(years=5, busy_share=0.5),
    compute=Compute(
        price_per_core=219,
        price_per_gib=21.9,
        watts_per_core=10,
        watts_per_gib=1,
        rent_per_core_hour=0,
        rent_per_gib_hour=0,
    ),
    power=Power(price_per_kwh=0.1, pue=1.5),
    storage=Storage(fill_share=0.8, price_per_node=9000, drives_per_node=24, watts_per_node=400),
    media={},
    sources={},
)
DISKS = Medium(title="hard disks", price_per_tb=15, tb_per_drive=20, watts_per_drive=8, replaced_per_year=0.02)


def test_an_hour_of_bought_compute() -> None:
    # 5 years × 8760 h × 0.5 = 21 900 paid hours: a core 0.01 an hour, a GiB 0.001; power 20 W + 8 W = 28 W.
    assert PRICES.compute_per_hour(2, 8) == pytest.approx(2 * 0.01 + 8 * 0.001 + 0.028 * 1.5 * 0.1)


def test_rented_compute_pays_neither_purchase_nor_power() -> None:
    rented = replace(PRICES, compute=replace(PRICES.compute, rent_per_core_hour=0.04, rent_per_gib_hour=0.005))
    assert rented.compute_per_hour(2, 8) == pytest.approx(0.12)


def test_a_quarter_of_a_terabyte_costs_a_quarter_of_the_price_per_terabyte() -> None:
    found = RunCost(seconds=1800, cores=2, cost=0.5, bytes=250 * 10**9)
    assert found.cost_per_tb == pytest.approx(2.0)
    assert found.gb_per_core_hour == pytest.approx(250)


def test_gb_per_core_and_hour_is_the_published_formula() -> None:
    """(data-size / cores / time-taken-in-seconds) × 3600: 1 TB on 100 cores in an hour is 10 GB per core and hour."""
    found = RunCost(seconds=3600, cores=100, cost=1, bytes=cost.TB)
    assert found.gb_per_core_hour == pytest.approx(10)


def test_what_has_no_known_size_has_no_price_per_tb() -> None:
    found = RunCost(seconds=10, cores=1, cost=1, bytes=None)
    assert found.cost_per_tb is None
    assert found.gb_per_core_hour is None


def test_data_that_each_number_of_clients_moves_again_counts_as_often() -> None:
    pieces = [lab_runs.measure(f"write, {n} clients", 10, bytes=512_000_000, clients=n) for n in (2, 4, 8)]
    found = cost.completed_work(lab_runs.run("dfsio", lab_runs.repetition(1, pieces)))
    assert (found.seconds, found.bytes) == ((30.0,), 3 * 512_000_000)


@pytest.mark.parametrize(
    ("name", "factor", "hosts"), [("3x", 3.0, 3), ("4+2", 1.5, 6), ("8+3", 1.375, 11), ("1x", 1.0, 1)]
)
def test_protection_by_name(name: str, factor: float, hosts: int) -> None:
    found = cost.parse_protection(name)
    assert (found.factor, found.hosts) == (factor, hosts)


@pytest.mark.parametrize("name", ["", "3", "x3", "4+", "0x", "4+0", "4:2", "-1x"])
def test_what_is_no_protection_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="neither a number of copies"):
        cost.parse_protection(name)


def test_a_petabyte_needs_three_with_copies_and_one_and_a_half_with_erasure_coding() -> None:
    """Red Hat: 3 PB of raw capacity for 1 PB with 3× replication, 1.5 PB with 4+2; filled to the brim."""
    full = replace(PRICES, storage=replace(PRICES.storage, fill_share=1))
    copies = cost.store_cost(full, DISKS, cost.parse_protection("3x"), 1000 * cost.TB)
    coded = cost.store_cost(full, DISKS, cost.parse_protection("4+2"), 1000 * cost.TB)
    assert (copies.raw_bytes / cost.TB, coded.raw_bytes / cost.TB) == (3000, 1500)
    assert (copies.drives, coded.drives) == (150, 75)


def test_total_cost_of_ownership_by_hand() -> None:
    # 480 TB × 1.5 / 0.8 = 900 TB raw: 45 disks of 20 TB in 6 nodes (4+2 needs six; 45 disks would fit in two).
    found = cost.store_cost(PRICES, DISKS, cost.parse_protection("4+2"), 480 * cost.TB)
    assert (found.drives, found.nodes) == (45, 6)
    assert found.drives_cost == pytest.approx(45 * 20 * 15)
    assert found.nodes_cost == pytest.approx(6 * 9000)
    assert found.watts == pytest.approx(45 * 8 + 6 * 400)
    assert found.energy_cost == pytest.approx(2.76 * 1.5 * 0.1 * 5 * 8760)
    assert found.replacements_cost == pytest.approx(45 * 20 * 15 * 0.02 * 5)
    assert found.total_cost == pytest.approx(13500 + 54000 + 18133.2 + 1350)
    assert found.cost_per_usable_tb_year == pytest.approx(found.total_cost / 480 / 5)


def test_a_small_store_still_needs_a_machine_for_each_chunk() -> None:
    found = cost.store_cost(PRICES, DISKS, cost.parse_protection("4+2"), cost.TB)
    assert (found.drives, found.nodes) == (6, 6)


@given(st.floats(1e12, 1e17), st.floats(1.0, 4.0))
def test_more_data_never_costs_less(capacity: float, more: float) -> None:
    kept = cost.parse_protection("4+2")
    small, large = (cost.store_cost(PRICES, DISKS, kept, size) for size in (capacity, capacity * more))
    assert small.total_cost <= large.total_cost
    assert small.drives * DISKS.tb_per_drive * cost.TB * PRICES.storage.fill_share >= capacity * kept.factor * 0.999999


@pytest.mark.parametrize(
    ("slower", "expected"),
    [(1.57, 0.785), (1.48, 0.74), (2.0, 1.0), (1.37, 0.685), (1.0, 0.5)],
    ids=["ten users' queries", "mixed", "one user's queries", "enrichment", "as fast: favoured twofold"],
)
def test_price_performance_as_red_hat_computes_it(slower: float, expected: float) -> None:
    """Erasure coding 4+2 against three copies, with raw capacity in place of price."""
    baseline, coded = cost.relative([100.0, 100 * slower], [cost.parse_protection("3x"), cost.parse_protection("4+2")])
    assert baseline.price_performance == 1
    assert coded.price_performance == pytest.approx(expected)
