"""Runs that differ only in size form a curve, and the headline of its page names the size to choose."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock import prices as pricefile
from penstock.home import Home
from penstock.lab.analysis import cost
from penstock.lab.analysis.cost import CORE_HOURS
from penstock.lab.analysis.usl import Law
from penstock.lab.records import Description, Run
from penstock.lab.report import report, scaling
from penstock.model import Application, ApplicationSpec, Overhead, State

GIB = 1 << 30


def run(cores: int, seconds: Sequence[float], *, executor_cores: int = 1, **changes: Any) -> Run:
    """A TeraSort of 1 GB: the sort takes nine tenths of the time, the validation one tenth."""
    samples: list[dict[str, Any]] = []
    for repetition, value in enumerate(seconds, start=1):
        at = {"repetition": repetition, "attempt": 1}
        for name, share in (("sort", 0.9), ("validate", 0.1)):
            samples.append({"kind": "measure", "name": name, "elapsed_ms": 1000 * value * share, "bytes": 10**9, **at})
        samples.append({"kind": "repetition", "status": "ok", "elapsed_ms": 1000 * value + 5000, **at})
    samples += changes.pop("more", [])
    samples.append({"kind": "end", "outcome": changes.pop("outcome", "ok")})
    size = {
        "driver": {"cores": 1, "memory_bytes": GIB},
        "executor": {"cores": executor_cores, "memory_bytes": 2 * GIB},
        "executors": cores // executor_cores,
    }
    fields = {"options": {"size_bytes": 10**9}, "experiment": "e", "profile": "terasort", **changes}
    description = Description(
        id=f"run-{cores}",
        workload="terasort",
        arm=f"{cores} cores",
        created_at="2026-01-01",
        command="penstock lab scale terasort --cores 1,2,4,8",
        size=size,
        **fields,
    )
    return Run(description, tuple({"at_ms": 0, **sample} for sample in samples))


def curve_of(law: Law, sizes: Sequence[int], *, noise: float = 0.01, repetitions: int = 3) -> list[Run]:
    dice = random.Random(7)
    return [run(n, [law.seconds(n) * dice.lognormvariate(0, noise) for _ in range(repetitions)]) for n in sizes]


def test_the_seconds_of_a_run_are_those_of_all_its_timed_work() -> None:
    done = cost.completed_work(run(2, [10.0, 12.0]))
    assert done.seconds == pytest.approx((10.0, 12.0))
    assert (done.unit, done.bytes) == ("run", 10**9)


def test_a_repetition_that_failed_is_part_of_no_point() -> None:
    half = {"kind": "measure", "name": "sort", "elapsed_ms": 1, "bytes": 1, "repetition": 3, "attempt": 1}
    failed = {"kind": "repetition", "status": "failed", "error": "x", "elapsed_ms": 1, "repetition": 3, "attempt": 1}
    assert cost.completed_work(run(2, [10.0, 12.0], more=[half, failed])).seconds == pytest.approx((10.0, 12.0))


def test_work_of_a_set_time_is_counted_by_the_gigabyte() -> None:
    ingest = {"kind": "measure", "name": "ingest", "basis": "rate", "elapsed_ms": 60_000, "bytes": 12e9}
    description = run(2, []).description
    done = cost.completed_work(Run(description, ({"at_ms": 0, "repetition": 1, **ingest},)))
    assert (done.unit, done.bytes) == ("GB", 1e9)
    assert done.seconds == pytest.approx((5.0,))


def test_the_whole_cluster_is_paid_for() -> None:
    four = run(4, [3600.0], executor_cores=2)
    assert cost.hourly(cost.cluster_size(four), None) == 5
    prices = pricefile.read_prices()
    overheads = 3 * 384 / 1024
    assert cost.run_cost(four, prices).cost == pytest.approx(prices.compute_per_hour(5, 5 + overheads))


def test_an_hour_of_a_cluster_costs_the_same_in_the_engine_and_in_the_lab(tmp_path: Path) -> None:
    four = run(4, [3600.0], executor_cores=2)
    size = replace(cost.cluster_size(four), scratch_memory_bytes=GIB, executor_overhead=Overhead(fixed_bytes=2 * GIB))
    four = replace(four, description=replace(four.description, size=asdict(size)))
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    running = Application("app-1", ApplicationSpec("x.jar", size, "x"), State.RUNNING, at, admitted_at=at, cluster={})
    pricing = pricefile.Pricing(Home(tmp_path))
    in_engine = pricing.attempt_cost(running, at + timedelta(hours=1))
    assert in_engine is not None
    assert cost.run_cost(four, pricing.prices()).cost == pytest.approx(in_engine.amount)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (run(4, [5.0]), True),
        (run(2, [5.0]), False),
        (run(4, [5.0], options={"size_bytes": 2}), False),
        (run(4, [5.0], settings={"spark.x": "1"}), False),
        (run(4, [5.0], launcher="plain"), False),
        (run(4, [5.0], profile="etl"), False),
        (run(4, [5.0], machine={"cores": 8}), False),
        (run(4, [5.0], versions={"spark": "4.0.0"}), False),
        (run(4, [5.0], lake={"gateways": 1}), False),
        (run(4, [5.0], lake={"endpoints": ["http://127.0.0.1:1"]}), False),
    ],
    ids=[
        *("another size", "one size twice", "other work", "other settings", "another launcher", "another profile"),
        *("another machine", "other versions", "fewer gateways", "another number of gateways"),
    ],
)
def test_only_runs_that_differ_in_nothing_but_size_are_a_curve(other: Run, same: bool) -> None:
    assert cost.differ_in_size_alone([run(2, [10.0]), other]) is same


def test_one_number_of_cores_in_two_shapes_is_no_curve() -> None:
    assert not cost.differ_in_size_alone([run(2, [10.0]), run(8, [3.0]), run(8, [4.0], executor_cores=4)])


def test_sizes_are_whole_executors() -> None:
    size = cost.cluster_size(run(4, [], executor_cores=2))
    sizes = cost.cluster_sizes([2, 6], size.executor, size.driver)
    assert [found.executors for found in sizes] == [1, 3]
    with pytest.raises(ValueError, match="3 cores are not a whole number of executors with 2 cores each"):
        cost.cluster_sizes([2, 3], size.executor, size.driver)


def test_predicted_sizes_pay_for_their_executors_and_one_driver() -> None:
    found = cost.sizing(curve_of(Law(90, 10, 0.1), (1, 2, 4)))
    first = found.curve.predicted[0]
    assert first.cost == pytest.approx(9 * first.seconds / 3600)
    assert found.currency == CORE_HOURS


def test_the_page_says_first_which_size_is_fastest_and_which_cheapest() -> None:
    page = report.document(curve_of(Law(90, 10, 1.5), (1, 2, 4, 8, 16), repetitions=5))
    assert "is fastest on 8 cores (" in page.headline
    assert "and cheapest on 1" in page.headline or "and cheapest on 2" in page.headline
    assert "16 cores are slower again, by" in page.headline


def test_what_is_only_predicted_is_said_to_be() -> None:
    page = report.document(curve_of(Law(90, 10, 2), (1, 2, 4), repetitions=5, noise=0.005))
    assert "predicted, not measured: cores beyond " in page.headline
    table = next(part for section in page.sections if section.title == "All sizes" for part in section.parts)
    assert [row[-1] for row in table.rows[3:]] == ["predicted", "predicted"]


def test_no_law_is_claimed_from_two_sizes() -> None:
    page = scaling.document(curve_of(Law(90, 10, 0.3), (1, 2)))
    assert any("three unknowns" in section.note for section in page.sections)
    assert page.data["law"] is None
    assert "predicted" not in page.headline


def test_a_law_that_misses_says_so() -> None:
    # 4 cores are much slower than both their neighbours, so the law does not fit.
    page = scaling.document([run(1, [100.0]), run(2, [50.0]), run(4, [90.0]), run(8, [15.0])])
    law = next(section for section in page.sections if section.title == "Scalability law")
    assert "does not describe this workload well" in law.note


def test_failed_work_and_wrong_results_come_first() -> None:
    wrong = {"kind": "check", "name": "order", "right": False, "repetition": 1, "attempt": 1}
    page = report.document([*curve_of(Law(90, 10, 0.3), (1, 2, 4)), run(8, [20.0], more=[wrong], outcome="wrong")])
    assert page.headline.startswith("Failed check, ")
    assert page.doubts[0].sentence.startswith("8 cores: 1 check failed (order). ")
    assert not page.good


def test_with_prices_the_costs_are_money() -> None:
    runs = curve_of(Law(90, 10, 0.3), (1, 2, 4))
    page = scaling.document(runs, pricefile.read_prices())
    assert "USD 0.000" in page.headline
    assert any(section.title == "Prices used" for section in page.sections)


def test_all_forms_can_be_made_and_read() -> None:
    runs = curve_of(Law(90, 10, 0.3), (1, 2, 4, 8))
    assert "“core-hours per hour saved”" in report.as_markdown(runs)
    assert json.loads(report.as_json(runs))["law"]["sigma"] == pytest.approx(0.1, abs=0.05)
    assert 'id="time-against-cost"' in report.as_html(runs)
    assert report.as_html(runs) == report.as_html(runs)


def test_what_the_noise_leaves_open_is_not_claimed() -> None:
    page = report.document([run(1, [24.4, 30.6]), run(2, [31.6, 29.3]), run(3, [29.5, 30.9])])
    assert page.headline.startswith("Unchecked answer, too few rounds. ")
    assert page.headline.endswith("; whether more cores make it slower is open.")


def test_sizes_that_are_not_predicted_are_named_with_the_reason() -> None:
    (note,) = [
        s.note for s in report.document(curve_of(Law(90, 10, 0.3), (1, 2, 4))).sections if s.title == "Throughput"
    ]
    assert note.endswith("16 cores are not predicted: the band there spans more than a factor of 2.")
    (bare,) = [
        s.note for s in report.document([run(n, [9.0 / n]) for n in (1, 2, 4)]).sections if s.title == "Throughput"
    ]
    assert bare.endswith("8, 16 cores are not predicted: there is no band.")


def test_what_happened_at_once_or_elsewhere_is_not_added_up() -> None:
    at = {"kind": "measure", "repetition": 1, "attempt": 1, "bytes": 10**9}
    samples = (
        {**at, "name": "sort", "elapsed_ms": 9000, "user": 1},
        {**at, "name": "sort", "elapsed_ms": 8000, "user": 2},
        {**at, "name": "2 sorts at once, start to end", "elapsed_ms": 10_000, "bytes": 2 * 10**9},
        {**at, "name": "local sort", "elapsed_ms": 99_000, "reference": True},
    )
    done = cost.completed_work(Run(run(2, []).description, tuple({"at_ms": 0, **sample} for sample in samples)))
    assert done.seconds == pytest.approx((10.0,))
    assert done.bytes == 2 * 10**9


def test_a_curve_that_is_still_being_measured_says_so() -> None:
    *done, last = curve_of(Law(90, 10, 0.3), (1, 2, 4))
    assert report.document([*done, Run(last.description, last.samples[:-1])]).headline.startswith("Unfinished, ")


def application(user: int, submitted_ms: int, elapsed_ms: int | None) -> dict[str, Any]:
    times = {"submitted_ms": submitted_ms, "elapsed_ms": elapsed_ms}
    return {"kind": "application", "user": user, "repetition": 1, "attempt": 1, **times}


def test_users_at_once_pay_for_a_cluster_each() -> None:
    hour = 3_600_000
    alone = run(4, [3600.0])
    after = run(4, [3600.0], more=[application(1, 0, hour // 2), application(1, hour // 2, hour // 2)])
    together = run(4, [3600.0], more=[application(user, user, hour) for user in (1, 2, 3)])
    assert [cost.concurrent_clusters(found) for found in (alone, after, together)] == [1, 1, 3]
    prices = pricefile.read_prices()
    one, consecutive, three = (cost.run_cost(found, prices) for found in (alone, after, together))
    assert consecutive.cost == one.cost
    assert three.cost == pytest.approx(3 * one.cost)
    assert one.gb_per_core_hour and three.gb_per_core_hour
    assert three.gb_per_core_hour == pytest.approx(one.gb_per_core_hour / 3)
    curve = cost.sizing([run(2, [10.0]), together])
    assert curve.clusters == 3
    assert curve.curve.measured[1].cost == pytest.approx(3 * 5)


def test_a_phase_with_one_cluster_pays_for_one() -> None:
    crowd = [application(user, 10_000, 20_000) for user in (1, 2, 3)]
    found, prices = run(4, [30.0], more=[application(1, 0, 10_000), *crowd]), pricefile.read_prices()
    hourly = cost.hourly(cost.cluster_size(found), prices)
    assert cost.run_cost(found, prices).cost == pytest.approx(hourly * (10 + 3 * 20) / 3600)
    assert cost.sizing([found], prices).curve.measured[0].cost == pytest.approx(hourly * (10 + 3 * 20) / 3600)


def test_the_greatest_number_of_clusters_is_paid_for_where_a_time_is_unknown() -> None:
    crowd = [application(user, 0, 30_000) for user in (1, 2)]
    assert cost.mean_clusters(run(4, [30.0], more=[*crowd, application(3, 0, None)])) == 2.0
