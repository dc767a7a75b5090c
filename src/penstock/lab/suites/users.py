"""Users who run the TPC-DS queries, each in an order and on a cluster of their own."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidInput
from penstock.lab.bench import slug
from penstock.lab.session import Session
from penstock.lab.suites.tpcds import Power, power_run
from penstock.lab.suites.tpcdsdata import DataSet


@dataclass(frozen=True)
class User:
    """`number` counts from 1."""

    number: int
    order: tuple[str, ...]


def draw(count: int, queries: Sequence[str], seed: int) -> tuple[User, ...]:
    """Users with a random order of the queries each, no two the same; the same seed gives the same orders.

    A user's order depends on the seed and the user's number alone: the first five of ten users have the orders of five.
    Raises `InvalidInput` where there are fewer orders than users.
    """
    if math.factorial(min(len(queries), 20)) < count:
        raise InvalidInput(
            f"{count} users cannot each have an order of their own for {len(queries)} queries",
            fix="fewer --users, or more --queries",
        )
    users: list[User] = []
    taken: set[tuple[str, ...]] = set()
    for number in range(1, count + 1):
        dice = random.Random(f"{seed}/{number}")  # noqa: S311 - an order, no secret
        order = list(queries)
        dice.shuffle(order)
        while tuple(order) in taken:
            dice.shuffle(order)
        taken.add(tuple(order))
        users.append(User(number, tuple(order)))
    return tuple(users)


def run_user(session: Session, data: DataSet, user: User, doing: Callable[[str], None], *, role: str) -> Power:
    """Have the user run their queries, each recorded as theirs, and how long all of them took if all succeeded.

    That is no measure of its own: users at work at the same time share it, and adding them up would count it twice.
    """
    session = session.tagged(user=user.number)
    power = power_run(
        session,
        data,
        user.order,
        key=f"{slug(role)}/{user.number}",
        role=role,
        name=f"TPC-DS, {role}: user {user.number}",
        doing=doing,
    )
    if complete(power):
        started = min(sample["started_ms"] for sample in power.samples)
        session.record(
            "user",
            elapsed_ms=power.ran.sample["elapsed_ms"],
            queries=len(power.samples),
            until_first_query_ms=started - power.ran.sample["submitted_ms"],
        )
    return power


def shuffle_bytes(count: int, scale: float) -> int:
    """What the shuffle files of so many users take together, about: a third of the raw data each."""
    return int(count * scale * 0.3e9)


def complete(power: Power) -> bool:
    """Whether every query was answered and the application came to a good end."""
    return power.ran.succeeded and all(sample["status"] == "ok" for sample in power.samples)


def elapsed_ms(powers: Iterable[Power]) -> int:
    """From the first submission to the end of the last application."""
    samples = [power.ran.sample for power in powers]
    first = min(sample["submitted_ms"] for sample in samples)
    return int(max(sample["submitted_ms"] + sample["elapsed_ms"] for sample in samples) - first)


def distinct(answers: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Each different answer of a query once, with `whose` it is: who gave which answers → what there is to check.

    Answers are the same here only where their rows are, letter for letter, in any order: the checker decides what is
    right, this only saves it asking the same thing again.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for who, lines in answers.items():
        for line in lines:
            rows = sorted(json.dumps(row) for row in line["rows"])
            identity = (line["query"], json.dumps([line["columns"], line["types"]]), *rows)
            found.setdefault(identity, {**line, "whose": []})["whose"].append(who)
    return list(found.values())
