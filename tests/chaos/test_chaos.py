"""Iterations of applications under faults, with fixed seeds; longer runs: `python -m benchmarks.chaos.runner`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.chaos import environment, report, runner
from benchmarks.chaos.iterations import Result
from tests.support.quick_java import share_archives

# The first seed has one process fault each of gateway, store, database, supervisor and executor.
SEEDS = ("20263590", "20263591", "20263592")
WRITES, READS = 5, 10
"""The number of jobs that have to succeed under faults before the invariants mean much."""
PROOFS = (
    "every committed row once, none of an uncommitted job",
    "every answer right",
    "nothing left in the lake",
    "nothing left on the machine",
    "every state true",
    "every error understandable",
    "without faults nothing fails",
)


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, quick_java_machines: None, class_archives: Path
) -> Iterator[Sequence[Result]]:
    directory = tmp_path_factory.mktemp("chaos")
    with environment.own_home(directory / "home") as home:
        share_archives(home, class_archives)
        with environment.on(home, directory, lake=None) as here:
            yield played(here, directory)


def played(here: environment.Environment, directory: Path) -> list[Result]:
    """Run iterations until enough jobs have succeeded, and check the invariants over all of them.

    A seed decides which request kills its sender; the machine's speed decides how far the work has come by then.
    """
    results: list[Result] = []
    for seed in SEEDS:
        (directory / seed).mkdir()
        results += runner.iterations(here, directory / seed, seed=seed, jobs=10_000, minutes=4, only=1)
        if succeeded(results, "write done") >= WRITES and succeeded(results, "read done") >= READS:
            break
    return results


def succeeded(results: Sequence[Result], outcome: str) -> int:
    return sum(result.outcomes.get(outcome, 0) for result in results)


@pytest.mark.parametrize("proof", PROOFS)
def test_under_faults(results: Sequence[Result], proof: str) -> None:
    broken = [(result.seed, problem) for result in results for problem in result.broken[proof]]
    again = {f"python -m benchmarks.chaos.runner --rounds 1 --seed {seed}" for seed, _ in broken}
    assert not broken, f"{broken}\nplay it again: {' or '.join(again)}\n{report.text(results)}"


def test_there_were_faults_and_work_went_on_all_the_same(results: Sequence[Result]) -> None:
    kinds = report.faults_by_kind(results)
    said = report.text(results)
    print(said)
    assert sum(kinds.values()) >= 50, said
    assert len(kinds) >= 8, said
    assert any("killed" in kind or "stopped" in kind for kind in kinds), said
    assert succeeded(results, "write done") >= WRITES, said
    assert succeeded(results, "read done") >= READS, said
