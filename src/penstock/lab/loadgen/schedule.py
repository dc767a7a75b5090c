"""The sequence of a worker's requests. Pure: the same seed gives the same sequence, whatever the store responds."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.lab.loadgen.workload import Division, Numbers, Operation, OperationKind, Targets, Work


@dataclass(frozen=True)
class Request:
    """One request. `operation` is the index in the work's mix; `name` is the object's, or for a LIST the container's.

    `size` is the object's in bytes, None where only the store knows it; `length` bytes from `start` are transferred.
    """

    operation: int
    kind: OperationKind
    name: str
    size: int | None = None
    start: int = 0
    length: int | None = None

    @property
    def last(self) -> int:
        """The offset of the last requested byte."""
        return self.start + (self.length or 0) - 1


class RequestSequence:
    """The requests of worker `index` (from 0) of a work, in order, until nothing is left to do."""

    def __init__(self, work: Work, index: int, seed: int) -> None:
        self._work = work
        self._index = index
        self._seed = seed
        self._dice = random.Random(f"{seed}/{work.name}/{index}")  # noqa: S311 - load, not secrecy
        self._ratios = [operation.ratio for operation in work.operations]
        self._limit = _share(work.limit.operations, index, work.workers)
        self._made = 0
        self._names = [self._names_of(operation) for operation in work.operations]
        churned = next((operation for operation in work.operations if operation.churn), None)
        self._present = deque(_each(churned.targets.share(index, work.workers))) if churned else deque[str]()
        self._deleted: deque[str] = deque()

    def __iter__(self) -> Iterator[Request]:
        if self._work.limit.each_once:
            return self._each_once()
        return self._limited()

    def uncount(self) -> None:
        """Leave the last request out of the limit, since it is not measured."""
        self._made -= 1

    def _limited(self) -> Iterator[Request]:
        for request in self._mixed():
            if self._limit is not None and self._made >= self._limit:
                return
            self._made += 1
            yield request

    def _each_once(self) -> Iterator[Request]:
        operation = self._work.operations[0]
        names = operation.names or _each(operation.targets)
        for name in itertools.islice(names, self._index, None, self._work.workers):
            yield self._request(0, operation, name)

    def _mixed(self) -> Iterator[Request]:
        indices = range(len(self._work.operations))
        while True:
            chosen = self._dice.choices(indices, self._ratios)[0]
            operation = self._work.operations[chosen]
            name = self._churned(operation.kind) if operation.churn else next(self._names[chosen])
            if name is not None:
                yield self._request(chosen, operation, name)
            elif all(other.churn and other.kind is OperationKind.DELETE for other in self._work.operations):
                return

    def _churned(self, kind: OperationKind) -> str | None:
        """Return the next object of the worker's own part to write or delete; None where a DELETE finds none left."""
        if kind is OperationKind.DELETE:
            if not self._present:
                return None
            name = self._present.popleft()
            self._deleted.append(name)
        else:
            name = self._deleted.popleft() if self._deleted else self._present.popleft()
            self._present.append(name)
        return name

    def _names_of(self, operation: Operation) -> Iterator[str]:
        """Yield the names of an operation; where both numbers go in turn, every pair comes before one repeats.

        Workers without a part of their own take turns: the first begins with the first object, the second with the
        second, and each advances by the number of workers.
        """
        targets = operation.targets.share(self._index, self._work.workers)
        shared = targets.division is Division.NONE
        first, step = (self._index, self._work.workers) if shared else (0, 1)
        for turn in itertools.count(first, step):
            container = self._number(targets.containers, turn)
            rounds = turn // len(targets.containers) if targets.containers.in_turn else turn
            if operation.kind is OperationKind.LIST:
                yield targets.container(container)
            else:
                yield targets.name(container, self._number(targets.objects, rounds))

    def _number(self, numbers: Numbers, turn: int) -> int:
        if numbers.in_turn:
            return numbers.low + turn % len(numbers)
        return self._dice.randint(numbers.low, numbers.high)

    def _request(self, index: int, operation: Operation, name: str) -> Request:
        size = (
            operation.sizes.of(self._seed, name)
            if operation.sizes and operation.kind is not OperationKind.LIST
            else None
        )
        if operation.kind is not OperationKind.RANGE or size is None:
            return Request(index, operation.kind, name, size, 0, size)
        length = min(operation.range_bytes, size)
        return Request(index, operation.kind, name, size, self._dice.randint(0, size - length), length)


def _each(targets: Targets) -> Iterator[str]:
    for container in range(targets.containers.low, targets.containers.high + 1):
        for number in range(targets.objects.low, targets.objects.high + 1):
            yield targets.name(container, number)


def _share(total: int | None, index: int, of: int) -> int | None:
    if total is None:
        return None
    return total // of + (1 if index < total % of else 0)
