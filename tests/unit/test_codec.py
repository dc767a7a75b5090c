"""Records survive JSON, and those of other releases are read."""

import json
from dataclasses import dataclass
from datetime import datetime, timezone

import pytest

from penstock.codec import JsonRecord
from penstock.model import Cost, Reason, State


@dataclass(frozen=True)
class Whole(JsonRecord):
    state: State
    at: datetime | None
    reasons: tuple[Reason, ...] = ()
    cost: Cost | None = None
    retries: int = 3


WHOLE = Whole(State.FAILED, datetime(2026, 1, 2, tzinfo=timezone.utc), (Reason("a", "b"),), Cost(1.5, "EUR"), 1)


@pytest.mark.parametrize("record", [WHOLE, Whole(State.RUNNING, None)])
def test_a_record_survives_json(record: Whole) -> None:
    assert Whole.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_unknown_fields_are_ignored_and_absent_or_null_ones_have_their_defaults() -> None:
    assert Whole.from_json({"state": "running", "at": None, "retries": None, "later": 1}) == Whole(State.RUNNING, None)


@pytest.mark.parametrize(
    ("value", "error"), [({"at": None}, TypeError), ({"state": "asleep", "at": None}, ValueError), (5, TypeError)]
)
def test_a_damaged_record_is_refused(value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        Whole.from_json(value)  # type: ignore[arg-type]
