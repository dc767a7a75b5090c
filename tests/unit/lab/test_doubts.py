"""A page names every reason to doubt its figures before it shows any, in every form, and is green only without one."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from penstock import prices
from penstock.cli.lab.reports import show_document
from penstock.lab.analysis.doubts import Doubt, doubts
from penstock.lab.records import Run
from penstock.lab.report import cost, report
from penstock.lab.report.elements import render
from penstock.lab.report.elements.render import Document, Table
from tests.support import doubtful_runs
from tests.support.doubtful_runs import BUSY, LARGER, MACHINE, QUERIES, RESUMED, against_plain, tpcds
from tests.unit.lab import crowd_runs, lab_runs, store_runs
from tests.unit.lab.report.test_report import starts_run

WRONG = {"failed query", "damaged record"}
RATIO = re.compile(r"\d\s*×|\d\.\d+–\d")


def kinds(runs: Sequence[Run], **more: Any) -> list[str]:
    return [doubt.kind for doubt in doubts(runs, **more)]


def only(runs: Sequence[Run]) -> Doubt:
    (doubt,) = doubts(runs)
    return doubt


def terminal(document: Document) -> str:
    written = io.StringIO()
    show_document(Console(file=written, width=200, force_terminal=True, color_system=None), document)
    return written.getvalue()


def page(document: Document) -> str:
    """The text of the HTML page, without style and scripts."""
    html = render.render_html(document)
    return re.sub(r"<[^>]*>", "", re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL))


FORMS = {"HTML": page, "Markdown": render.render_markdown, "terminal": terminal}


@pytest.mark.parametrize(
    ("failed", "kind", "wrong"), [(0, None, False), (9, "some failed requests", False), (11, "failed requests", True)]
)
def test_figures_of_the_requests_that_succeeded_are_wrong_where_many_failed(
    failed: int, kind: str | None, wrong: bool
) -> None:
    errors = {"kind": "errors", "name": "put", "errors": {"overloaded": failed}, "first": {}}
    done = lab_runs.measure("put", 30, operations=1000 - failed)
    run = lab_runs.run("objects", lab_runs.repetition(1, [done, lab_runs.check("put"), errors]))
    found = doubts([run])
    assert [(doubt.kind, doubt.wrong) for doubt in found] == ([(kind, wrong)] if kind else [])


@pytest.mark.parametrize(("made", "kinds_of_doubt"), [(290, []), (150, ["missed rate"])])
def test_fewer_requests_a_second_than_were_asked_for_are_a_doubt(made: int, kinds_of_doubt: list[str]) -> None:
    measures = [
        lab_runs.measure(name, 30, operations=made / 2, errors={}, late=0, stage="main", asked_rate=10.0)
        for name in ("get", "put")
    ]
    run = lab_runs.run("objects", lab_runs.repetition(1, [*measures, lab_runs.check("get")]))
    assert kinds([run]) == kinds_of_doubt


def test_arms_in_turns_idle_checked_and_complete_leave_no_doubt() -> None:
    runs = against_plain()
    assert doubts(runs) == ()
    document = report.document(runs)
    assert document.good and not document.wrong
    assert document.headline == document.result
    assert '<h1 class="good">' in report.as_html(runs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", doubtful_runs.RUNS)
def test_each_record_is_named_before_any_ratio(kind: str, form: str) -> None:
    document = report.document(doubtful_runs.RUNS[kind]())
    (doubt,) = document.doubts
    assert doubt.kind == kind
    before, sentence, after = FORMS[form](document).replace("\u00a0", " ").partition(doubt.sentence)
    assert sentence and RATIO.search(after)
    assert not RATIO.search(before.replace(document.headline, "")), "only the headline precedes the sentence"
    assert document.headline.lower().startswith(f"{kind}. ")


@pytest.mark.parametrize("kind", doubtful_runs.RUNS)
def test_a_page_is_red_where_figures_are_not_valid_amber_with_a_caution_and_green_never(kind: str) -> None:
    runs = doubtful_runs.RUNS[kind]()
    document = report.document(runs)
    assert not document.good
    assert document.wrong == (kind in WRONG)
    assert f'<h1 class="{"bad" if kind in WRONG else "caution"}">' in report.as_html(runs)
    written = json.loads(report.as_json(runs))
    assert (written["good"], [doubt["kind"] for doubt in written["doubts"]]) == (False, [kind])


def test_doubts_stand_above_the_key_figures_of_the_page() -> None:
    html = report.as_html(against_plain(failing="q2"))
    assert html.index("<h1") < html.index('<ul class="doubts">') < html.index('<dl class="figures">')


def test_a_wrong_doubt_precedes_cautions() -> None:
    found = doubts(against_plain(failing="q2", rounds=2, machine={**MACHINE, "cores": 4}, load=9.0))
    assert [doubt.wrong for doubt in found] == [True, False, False, False]
    assert found[0].kind == "failed query"


def test_equal_doubts_of_several_runs_and_rounds_are_one_sentence_with_counts() -> None:
    busy = [replace(run, samples=tuple(_disturbed(run))) for run in against_plain()]
    assert only(busy).sentence == (
        "plain Spark, Penstock: other programs used up to 1.5 of 2 cores in 5 of 5 rounds (no. 1, 2, 3, 4, 5). "
        "Measure again on an idle machine."
    )


def _disturbed(run: Run) -> list[dict[str, Any]]:
    taken = {"other_core_seconds": 15.0, "disturbed": True}
    return [{**sample, **(taken if sample["kind"] == "usage" else {})} for sample in run.samples]


def test_a_single_run_needs_no_name_and_no_rounds_to_compare() -> None:
    assert doubts([tpcds(rounds=1)]) == ()
    sentence = only([tpcds(failing="q2")]).sentence
    assert (
        sentence
        == "1 query failed (q2) in 1 round. No figure includes a failed execution; the errors are listed below."
    )


@pytest.mark.parametrize(
    ("run", "kind", "wrong"),
    [
        (lab_runs.terasort_gone_wrong(), "failed check", True),
        (lab_runs.terasort(more=lab_runs.repetition(4, [], error="x"), outcome="failed"), "failed round", True),
        (lab_runs.terasort(more=lab_runs.repetition(-1, [], error="x"), outcome="failed"), "failed round", True),
        (lab_runs.terasort(outcome="failed"), "failed run", True),
        (lab_runs.terasort(outcome="unfinished"), "unfinished", False),
        (lab_runs.run("sorting", [lab_runs.measure("sort", 1)]), "unchecked answer", False),
        (crowd_runs.streams(wrong="q2"), "wrong answer", True),
        (crowd_runs.streams(failing="q2"), "failed query", True),
        (tpcds(more=({"kind": "resumed", "machine": {**MACHINE, "cores": 8}},)), "changed machine", True),
        (tpcds(more=({"kind": "resumed", "commit": "4d5e6f7"},)), "changed commit", False),
        (tpcds(more=({"kind": "resumed", "versions": {"spark": "4.1.3"}},)), "changed versions", False),
        (tpcds(usage={"disturbed": True}), "doubtful time", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_by_itself_is_doubted(run: Run, kind: str, wrong: bool) -> None:
    found = [doubt for doubt in doubts([run]) if doubt.kind == kind]
    assert [doubt.wrong for doubt in found] == [wrong]


def test_a_recorded_judgement_of_a_disturbance_precedes_the_rule_for_older_records() -> None:
    assert only([tpcds(usage=BUSY)]).kind == "doubtful time"
    assert doubts([tpcds(usage={**BUSY, "disturbed": False})]) == ()


def test_a_resumed_run_says_how_often_and_what_changed() -> None:
    assert kinds([tpcds(more=(RESUMED,))]) == ["resumed run"]
    twice = doubts([tpcds(more=(RESUMED, {**RESUMED, "commit": "4d5e6f7"}))])
    assert [doubt.sentence.partition(". ")[0] for doubt in twice] == [
        "Begun with 0a1b2c3, resumed with 4d5e6f7",
        "Interrupted and resumed 2 times",
    ]


def test_the_load_of_the_lab_itself_is_no_busy_machine() -> None:
    """The load average before a later turn, or after a preparation, includes the lab's own applications."""
    run = tpcds(load=6.5)
    assert only([run]).kind == "busy machine"
    prepared = {"kind": "application", "role": "generate", "at_ms": 0}
    assert doubts([replace(run, samples=(prepared, *run.samples))]) == ()
    assert doubts([tpcds(load=6.5, place=2)]) == (), "another experiment of the command preceded it"
    second_arm = [{**one, "order": 2} if one["kind"] == "begin" else one for one in run.samples]
    assert doubts([replace(run, samples=tuple(second_arm))]) == ()


def test_requests_of_another_client_make_the_count_of_requests_doubtful() -> None:
    counted = {"store_requests": {"GET": 40}}
    assert doubts([tpcds(usage={**counted, "store_foreign_requests": 0})]) == ()
    doubt = only([tpcds(usage={**counted, "store_foreign_requests": 12})])
    assert (doubt.kind, doubt.wrong) == ("busy store", False)
    assert doubt.sentence.startswith(
        "Another client sent up to 12 requests in the second before 1 of 5 rounds (no. 2). "
    )


def test_a_query_whose_answer_could_not_be_checked_is_unchecked_and_not_wrong() -> None:
    unknown = {"kind": "answer", "query": "q2", "verdict": "unchecked", "repetition": 2, "note": "no disk"}
    document = report.document([tpcds(unchecked="q2", more=(unknown,))])
    assert [doubt.kind for doubt in document.doubts] == ["unchecked answer"]
    assert "✗" not in report.as_markdown([tpcds(unchecked="q2", more=(unknown,))])


def test_no_answer_of_a_run_without_validation_was_checked() -> None:
    run = tpcds()
    without = replace(run, samples=tuple(one for one in run.samples if one["kind"] != "answer"))
    assert only([without]).sentence.startswith("No answer was checked. ")
    assert "correct" not in report.document([without]).result.replace("no answer is known to be correct", "")


@pytest.mark.parametrize(
    "run",
    [
        tpcds(failing="q2"),
        crowd_runs.streams(failing="q2"),
        lab_runs.terasort(more=lab_runs.repetition(4, [], error="x"), outcome="failed"),
    ],
    ids=lambda run: run.description.workload,
)
def test_a_headline_does_not_sound_like_success_where_figures_are_not_valid(run: Run) -> None:
    headline = report.document([run]).headline
    assert headline.startswith("Failed ")
    assert not re.search(r"(?<!not )\b(all|every)\b", headline, re.IGNORECASE)


@pytest.mark.parametrize("arms", [2, 3])
def test_failed_queries_of_any_arm_are_on_the_page(arms: int) -> None:
    others = [tpcds(f"arm {number}") for number in range(2, arms)]
    document = report.document([tpcds("first"), *others, tpcds("last", failing="q2")])
    (section,) = (section for section in document.sections if section.title == "Failed queries")
    (table,) = (part for part in section.parts if isinstance(part, Table))
    assert table.rows == [["last", "q2", "2", "✗ no space left"]]
    assert section.brief, "the terminal shows it too"


def test_experiments_apart_are_named_with_all_that_differs() -> None:
    later = tpcds("later", experiment="f", size=LARGER, profile="tpcds+s3a-tuned", settings={"spark.x": "1"})
    assert kinds([tpcds("before", profile="tpcds"), later]) == [
        *("different cluster sizes", "different profiles", "different settings", "not measured in turns")
    ]


def test_an_experiment_is_about_the_choices_of_its_arms() -> None:
    sizes = [tpcds("2 cores"), tpcds("4 cores", size=LARGER)]
    assert doubts(sizes) == ()
    clients = [tpcds("ours", profile="tpcds"), tpcds("s3a", profile="tpcds+s3a-tuned", settings={"spark.x": "1"})]
    assert doubts(clients) == ()
    assert kinds(clients, subject="lake") == ["different profiles", "different settings"], "stores are to be alike"


def test_the_machine_of_a_lab_whose_applications_ran_on_kubernetes_makes_no_difference() -> None:
    other = {**MACHINE, "processor": "EPYC"}
    resumed = {**RESUMED, "machine": other}
    runs = [tpcds("one", backend="kubernetes"), tpcds("two", backend="kubernetes", machine=other, more=(resumed,))]
    assert kinds(runs) == ["resumed run"]


def test_unknown_properties_of_older_records_are_no_difference() -> None:
    assert doubts([tpcds("old", machine={}, commit=None), tpcds()]) == ()


def test_every_kind_of_page_has_the_doubts_of_its_runs() -> None:
    sizes = [lab_runs.terasort(size=lab_runs.size(n), arm=f"{n} executors") for n in (1, 2, 4)]
    asked = cost.PriceOptions(prices.read_prices(), ())
    pages = {
        "queries": report.document([tpcds(failing="q2")]),
        "measures": report.document([lab_runs.terasort(outcome="unfinished")]),
        "comparison": report.document(against_plain(failing="q2")),
        "streams": report.document([crowd_runs.streams(failing="q2")]),
        "scaling": report.document(sizes),
        "stores": report.document(_stores()),
        "startup": report.document([starts_run("Penstock", 6), starts_run("plain Spark", 12)]),
        "cost": cost.document(sizes, asked),
    }
    assert [name for name, document in pages.items() if document.good] == []


def test_stores_merge_the_doubts_of_their_workloads() -> None:
    found = {doubt.kind: doubt.sentence for doubt in report.document(_stores()).doubts}
    assert found["too few rounds"].startswith("2 of 2 comparisons have fewer than the ")
    assert found["not measured in turns"].startswith("The arms of 2 of 2 comparisons are of several experiments")
    assert len(found) == 2


def _stores() -> list[Run]:
    stores = ("HDFS", "Ceph 3x", "Ceph 4+2")
    runs = [store_runs.timed(workload, store, rounds=2) for workload in ("etl", "kmeans") for store in stores]
    return [replace(run, description=replace(run.description, experiment=None)) for run in runs]


def test_a_query_that_failed_in_one_round_is_marked_beside_its_time() -> None:
    sections = {section.title: section for section in report.document([tpcds(failing="q2")]).sections}
    (table,) = sections["All queries"].parts
    assert isinstance(table, Table)
    assert {row[0]: row[-1] for row in table.rows} == {"q1": "✓", "q2": "✗ no space left", "q14a": "✓"}


def test_a_failed_query_in_every_round_is_one_row() -> None:
    samples = [
        {**one, "status": "failed", "error": "x"} if one.get("query") == "q1" else one for one in tpcds().samples
    ]
    run = replace(tpcds(), samples=tuple(one for one in samples if one["kind"] != "answer" or one["query"] != "q1"))
    assert only([run]).sentence.startswith("1 query failed (q1) in 5 rounds. ")
    assert "| q1 | 1, 2, 3, 4, 5 | ✗ x |" in report.as_markdown([run])
    assert set(report.document([run]).data["queries"]) == set(QUERIES) - {"q1"}
