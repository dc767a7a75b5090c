"""A report states the outcome first, is generated from samples alone, and loads nothing from elsewhere."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.lab.analysis.verdicts import Ratio, spread
from penstock.lab.records import Description, Run
from penstock.lab.report import report
from penstock.lab.report.elements.render import Table
from penstock.lab.report.plots import queries as query_plots

SIZE = {
    "driver": {"cores": 1, "memory_bytes": 1 << 30},
    "executor": {"cores": 2, "memory_bytes": 2 << 30},
    "executors": 1,
}
EVIL = "</script><script>alert(1)</script>"


QUERIES = ("q1", "q2", "q14a")


def run(
    *,
    arm: str = "Penstock",
    seconds: float = 2.0,
    rounds: int = 1,
    queries: Sequence[str] = QUERIES,
    **changes: Any,
) -> Run:
    samples: list[dict[str, Any]] = [
        {
            "kind": "query",
            "query": name,
            "repetition": repetition,
            "iteration": 1,
            "started_ms": 0,
            "elapsed_ms": 1000 * seconds * (1 + repetition / 100),
            "planning_ms": 200,
            "rows": 100,
            "status": "ok",
        }
        for repetition in range(1, rounds + 1)
        for name in queries
    ]
    samples += [{"kind": "answer", "query": name, "verdict": "equal", "note": ""} for name in queries]
    samples += changes.pop("more", [])
    samples.append({"kind": "end", "outcome": changes.pop("outcome", "ok")})
    changes.setdefault("experiment", "one")
    description = Description(
        id=f"id-{arm}",
        workload="tpcds",
        arm=arm,
        created_at="2026-01-01",
        command="penstock lab tpcds",
        scale=1.0,
        size=SIZE,
        **changes,
    )
    return Run(description, tuple({"at_ms": 0, **sample} for sample in samples))


def test_the_headline_says_that_all_is_right() -> None:
    assert report.document([run()]).headline == "All 3 queries ran in 6.06 s on 2 cores, and every answer is correct."


def test_a_wrong_answer_is_the_first_thing_said() -> None:
    wrong = {"kind": "answer", "query": "q2", "verdict": "different", "note": "", "lines": ["- 1", "+ 2"]}
    document = report.document([run(more=[wrong], outcome="wrong")])
    assert document.headline.startswith("Wrong answer. 3 queries ran in ")
    assert document.doubts[0].sentence.startswith("1 answer is wrong (q2). ")
    assert not document.good
    assert document.sections[0].title == "Wrong answers"


def test_a_failed_query_is_never_an_average() -> None:
    failed = {"kind": "query", "query": "q3", "iteration": 1, "started_ms": 0, "elapsed_ms": 9e9, "rows": 0}
    document = report.document([run(more=[{**failed, "status": "failed", "error": "boom"}], outcome="failed")])
    assert document.headline.startswith("Failed query. ")
    assert document.doubts[0].sentence.startswith("1 query failed (q3). ")
    assert document.data["total_seconds"] < 10


def test_a_repetition_that_could_not_run_is_said_first() -> None:
    description = run().description
    broken = {"kind": "repetition", "at_ms": 0, "repetition": 1, "status": "failed", "error": "the driver was killed"}
    document = report.document([Run(description, (broken, {"kind": "end", "at_ms": 0, "outcome": "failed"}))])
    assert document.headline == "Failed round. No query was measured."
    assert not document.good
    assert document.sections[0].title == "Failures"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = report.as_html([run()])
    own = page.replace(re.findall(r"<script>.*?</script>", page, re.DOTALL)[0], "")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", own)
    assert not re.search(r"@import|url\(", own)


def test_texts_in_the_records_cannot_become_script() -> None:
    page = report.as_html([run(arm=EVIL, settings={EVIL: EVIL}, commit=EVIL)])
    assert "<script>alert" not in page


def test_the_same_samples_make_the_same_page() -> None:
    assert report.as_html([run()]) == report.as_html([run()])


def test_a_comparison_says_how_much_and_whether_it_is_noise() -> None:
    plain, ours = run(arm="plain Spark", seconds=4, rounds=5), run(seconds=2, rounds=5)
    assert report.document([plain, ours]).result.startswith(
        "Penstock took 0.5× the time of plain Spark over 3 queries in 5 rounds: "
    )
    same = report.document([plain, run(arm="other", seconds=4, rounds=5)])
    assert same.result.startswith("No difference shown in 5 rounds: ")
    few = report.document([run(arm="plain Spark", seconds=4, rounds=4), ours])
    assert few.headline.startswith("Too few rounds. Penstock took 0.5× the time of plain Spark")
    assert few.headline.lower().count("too few rounds") == 1


def test_the_plot_of_all_time_starts_before_the_first_query() -> None:
    (line,) = query_plots.cumulative({"q1": 2.0, "q2": 3.0})["data"]
    assert (line["x"], line["y"]) == ([0, 1, 2], [0.0, 2.0, 5.0])
    assert line["hovertext"][-1] == "<b>5.00 s</b> after q2<br>query 2 of 2, 3.00 s"


def test_the_longest_query_is_the_first_row() -> None:
    execution, ends = query_plots.query_bars({"q1": 2.0, "q2": 3.0}, {})["data"]
    assert (execution["y"], execution["x"]) == (["q2", "q1"], [3.0, 2.0])
    assert (ends["y"], ends["text"]) == (["q2", "q1"], [" 3.00 s", " 2.00 s"])


def test_markdown_and_json_say_the_same() -> None:
    document = report.document([run()])
    assert document.headline in report.as_markdown([run()])
    assert json.loads(report.as_json([run()]))["headline"] == document.headline


def test_an_unfinished_run_has_a_report_too() -> None:
    whole = run()
    partial = Run(whole.description, whole.samples[:2])
    assert report.document([partial]).headline.startswith("Unfinished")
    nothing = Run(whole.description, ())
    assert "Unfinished" in report.as_html([nothing])


def test_runs_of_different_workloads_are_not_compared() -> None:
    startup = Run(Description(id="s", workload="startup", arm="Penstock", created_at="", command=""), ())
    with pytest.raises(InvalidInput, match="different things"):
        report.document([run(), startup])


def starts_run(arm: str, seconds: float) -> Run:
    description = Description(
        id=arm, workload="startup", arm=arm, created_at="", command="x", size=SIZE, experiment="one"
    )
    one = {"kind": "start", "submitted_ms": 0}
    return Run(description, tuple({**one, "repetition": n, "first_task_ms": 1000 * seconds + n} for n in range(1, 6)))


def test_starts_are_compared_by_their_medians() -> None:
    result = report.document([starts_run("Penstock", 6), starts_run("plain Spark", 12)]).result
    assert result == "Penstock launches its first task after 6.00 s; plain Spark after 12.0 s."
    assert "6.00 s" in report.as_html([starts_run("Penstock", 6)])


@given(st.lists(st.floats(-3, 3).map(lambda power: 10**power), min_size=1, max_size=8))
def test_the_ticks_of_ratios_stand_apart_and_the_axis_shows_every_ratio_and_one(found: list[float]) -> None:
    parts = [Ratio(f"q{number}", spread([1]), spread([ratio]), ratio, None) for number, ratio in enumerate(found)]
    axis = query_plots.ratios(parts)["layout"]["xaxis"]
    low, high = axis["range"]
    assert all(low <= math.log10(ratio) <= high for ratio in (*found, 1))
    ticks = [math.log10(tick) for tick in axis["tickvals"]]
    assert ticks
    assert all(low <= tick <= high for tick in ticks)
    assert all(after - before >= (high - low) / 20 for before, after in itertools.pairwise(ticks))


def test_columns_that_say_nothing_are_left_out_of_a_table() -> None:
    table = Table(
        ("arm", "noise", "s", "note"), [("a", "", "1", ""), ("b", "", "2", "late")], numeric=frozenset({1, 2})
    )
    assert table.filled() == Table(["arm", "s", "note"], [["a", "1", ""], ["b", "2", "late"]], numeric=frozenset({1}))


def test_two_runs_of_one_arm_are_distinguished_by_the_ends_of_their_ids() -> None:
    first, second = run(), run(seconds=4)
    second = replace(second, description=replace(second.description, id="id-later"))
    assert report.document([first, second]).result.startswith("Penstock later took 2× the time of Penstock Penstock")
