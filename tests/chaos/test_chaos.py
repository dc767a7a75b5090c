"""A round of applications under faults, always of the same seed; longer runs: `python -m benchmarks.chaos.runner`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.chaos import environment, report, runner
from benchmarks.chaos.iterations import Result
from tests.support.quick_java import share_archives

SEED = "20263590"  # process faults of gateway, store, database, supervisor and executor, one each
ROUNDS = 1
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
            yield list(runner.rounds(here, directory, seed=SEED, jobs=10_000, minutes=4, only=ROUNDS))


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
    outcomes = [result.outcomes for result in results]
    assert sum(one.get("write done", 0) for one in outcomes) >= 5, said
    assert sum(one.get("read done", 0) for one in outcomes) >= 10, said
