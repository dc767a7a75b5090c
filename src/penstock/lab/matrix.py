"""In which order things are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def turns(arms: Sequence[Item], repetitions: int) -> Iterator[tuple[int, Item]]:
    """(repetition, arm): every arm once in each repetition, and each first equally often.

    What drifts over time (a filling disk, a warming machine) then falls on all arms alike.
    """
    for repetition in range(1, repetitions + 1):
        shift = (repetition - 1) % len(arms)
        for arm in (*arms[shift:], *arms[:shift]):
            yield repetition, arm
