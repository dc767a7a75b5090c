"""Where artefacts are in the lake, and that they are found again by their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.artefacts import EVENTS, key, name_of

ID = "app-20261121-rsprnsjxn"
_part = st.text("abcz019._-", min_size=1, max_size=12)


def test_event_logs_lie_side_by_side_and_each_application_knows_its_own() -> None:
    assert key(ID, "events/penstock-17.zstd") == f"{EVENTS}{ID}~penstock-17.zstd"
    assert key(ID, "attempts/2/events/penstock-17.zstd") == f"{EVENTS}{ID}~2~penstock-17.zstd"


@pytest.mark.parametrize(
    "name", ["driver.log", "attempts/1/driver.err", "events/eventlog_v2_a/events_1_a", "summary.json"]
)
def test_everything_else_lies_with_its_application(name: str) -> None:
    assert key(ID, name) == f"penstock/applications/{ID}/{name}"


@given(part=_part, attempt=st.none() | st.integers(1, 99), events=st.booleans())
def test_a_name_is_found_again_in_what_the_lake_lists(part: str, attempt: int | None, events: bool) -> None:
    name = ("" if attempt is None else f"attempts/{attempt}/") + ("events/" if events else "") + part
    assert name_of(ID, key(ID, name)) == name


def test_no_name_leads_to_another_application_s_event_log() -> None:
    other = key("app-20261121-other", "events/penstock-17.zstd")
    for name in (other, f"events/../{other}", "events/app-20261121-other~penstock-17.zstd"):
        assert key(ID, name) != other
