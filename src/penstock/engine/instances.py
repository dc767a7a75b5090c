"""Instances: who shares the machine, how large a part is theirs, and how much they may hold at once. Plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from penstock.engine.application import DEFAULT_INSTANCE
from penstock.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HEAVIEST = 1000.0
_MOST_ATTRIBUTE_BYTES = 64 << 10


@dataclass(frozen=True)
class Quota:
    """The most an instance may have at once; None is without bounds.

    `cores` and `memory_bytes` are promises as admission counts them: driver and overheads included. `waiting` bounds
    its queue: a submission beyond it is refused.
    """

    cores: int | None = None
    memory_bytes: int | None = None
    running: int | None = None
    waiting: int | None = None


@dataclass(frozen=True)
class Instance:
    """`weight` is its share against the others': with twice the weight it gets twice as much where both want more.

    `attributes` are kept for clients (an API's defaults of the instance); the engine does not look at them.
    """

    name: str = DEFAULT_INSTANCE
    weight: float = 1.0
    quota: Quota = Quota()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Instance:
        """The inverse of `to_json`. Raises `InvalidInput` for what `checked` refuses, and for unknown fields."""
        _known(value, Instance, "an instance")
        quota = value.get("quota") or {}
        if not isinstance(quota, Mapping):
            raise InvalidInput("quota is not an object", fix='write "quota": {"running": 2}')
        _known(quota, Quota, "a quota")
        return checked(Instance(**{**value, "quota": Quota(**quota)}))


@dataclass(frozen=True)
class Use:
    """What an instance has now. `cores` and `memory_bytes` are promised to its clusters."""

    running: int = 0
    waiting: int = 0
    cores: int = 0
    memory_bytes: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def checked(instance: Instance) -> Instance:
    """The same; raises `InvalidInput` where a part of it cannot be."""
    if not isinstance(instance.name, str) or not _NAME.fullmatch(instance.name):
        raise InvalidInput(
            "That cannot be an instance's name",
            why="it has 1 to 63 letters, digits, dots, dashes and underscores, and begins with a letter or digit",
            fix="choose another name, such as team-a",
        )
    if not _is_number(instance.weight) or not 0 < instance.weight <= _HEAVIEST:
        raise InvalidInput("weight must be above 0 and at most 1000", fix="1 is usual, 2 has twice the share")
    for part in fields(Quota):
        most = getattr(instance.quota, part.name)
        least = 0 if part.name == "waiting" else 1
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not least <= most < 1 << 60):
            raise InvalidInput(
                f"quota.{part.name} must be a whole number, {least} at least", fix="leave it out for no bound"
            )
    if not isinstance(instance.attributes, Mapping) or len(repr(instance.attributes)) > _MOST_ATTRIBUTE_BYTES:
        raise InvalidInput("attributes must be an object of at most 64 KiB", fix="keep less with the instance")
    return instance


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _known(value: Mapping[str, Any], kind: type, what: str) -> None:
    names = {part.name for part in fields(kind)}
    if unknown := sorted(value.keys() - names):
        raise InvalidInput(f"{what} has no “{unknown[0]}”", why=f"it has {', '.join(sorted(names))}")
