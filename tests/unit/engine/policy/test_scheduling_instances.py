"""A queue's description is accepted completely, or refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.engine.policy.scheduling import Instance, Quota
from penstock.errors import InvalidInput

FULL = Instance("team-a", 2.5, Quota(8, 1 << 34, 4, 0), {"defaults": {"spark.a": "1"}})


def test_what_is_written_is_read() -> None:
    assert Instance.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL
    assert Instance.from_json({"name": "b"}) == Instance("b")


@pytest.mark.parametrize(
    "value",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "../b"},
        {"name": "a\nb"},
        {"name": "-a"},
        {"name": "a" * 64},
        {"name": 1},
        {"name": "a", "weight": 0},
        {"name": "a", "weight": float("nan")},
        {"name": "a", "weight": True},
        {"name": "a", "weight": "2"},
        {"name": "a", "quota": 3},
        {"name": "a", "quota": {"running": 0}},
        {"name": "a", "quota": {"running": -1}},
        {"name": "a", "quota": {"cores": 1.5}},
        {"name": "a", "quota": {"memory_bytes": 1 << 70}},
        {"name": "a", "quota": {"speed": 1}},
        {"name": "a", "colour": "red"},
        {"name": "a", "attributes": {"x": "y" * 100_000}},
    ],
)
def test_what_cannot_be_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Instance.from_json(value)
