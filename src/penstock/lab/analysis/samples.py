"""Which samples count: those of repetitions that came to a good end, and of no warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lab.records import Run, Sample


def counted(run: Run, kind: str) -> list[Sample]:
    """The samples of one kind that any median may be made of.

    Where the run records its repetitions, one that failed or has not ended yet counts for nothing. A run without a
    single ended repetition counts as far as it got: its report says that it is unfinished.
    """
    ends = {sample["repetition"]: sample["status"] for sample in run.of_kind("repetition")}
    return [
        sample
        for sample in run.of_kind(kind)
        if not warm_up(sample) and (not ends or ends.get(sample.get("repetition"), "going on") == "ok")
    ]


def warm_up(sample: Sample) -> bool:
    return bool(sample.get("warmup", False))


@dataclass(frozen=True)
class Repetitions:
    """What became of the repetitions that were to be counted. `errors` has a sentence for each that failed."""

    succeeded: int
    errors: Mapping[int, str]

    @property
    def failed(self) -> int:
        return len(self.errors)


def repetitions(run: Run) -> Repetitions:
    ended = [sample for sample in run.of_kind("repetition") if not warm_up(sample)]
    errors = {
        int(sample["repetition"]): str(sample.get("error") or "it failed")
        for sample in ended
        if sample["status"] != "ok"
    }
    return Repetitions(len(ended) - len(errors), errors)


def checks(run: Run) -> list[Sample]:
    """Every validation, also of warm-up and of repetitions that failed later: a wrong result is wrong anywhere."""
    return run.of_kind("check")


def wrong_checks(run: Run) -> list[Sample]:
    return [sample for sample in checks(run) if not sample["right"]]


def failed_queries(run: Run) -> set[str]:
    return {str(sample["query"]) for sample in run.of_kind("query") if sample["status"] != "ok"}


def answer_verdicts(run: Run) -> Mapping[str, str]:
    """Per query `equal`, or `different` where any of its answers was; a query nobody checked is not in it."""
    verdicts: dict[str, str] = {}
    for sample in run.of_kind("answer"):
        if verdicts.get(sample["query"]) != "different":
            verdicts[str(sample["query"])] = str(sample["verdict"])
    return verdicts


@dataclass(frozen=True)
class Verdicts:
    """Of everything that was validated: checks and answers of queries."""

    made: int
    right: int


def verdicts(run: Run) -> Verdicts:
    found = [bool(sample["right"]) for sample in checks(run)]
    found += [sample["verdict"] == "equal" for sample in run.of_kind("answer")]
    return Verdicts(len(found), sum(found))


def all_right(run: Run) -> bool:
    """Whether nothing that was validated is wrong; True also where nothing was."""
    found = verdicts(run)
    return found.made == found.right


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts q2 before q10 and q14a before q14b."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for character in name + "\0":
        if character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, character))
    return tuple(parts)
