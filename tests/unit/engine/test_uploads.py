"""Uploads: which are retained (named by applications, or about to be), and which names files may have."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine import uploads
from penstock.lake.model import ObjectInfo

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
KEPT = timedelta(days=7)
PLACE = uploads.prefix_of("machine:/home")


def brought(name: str, age: timedelta) -> ObjectInfo:
    return ObjectInfo(uploads.upload_key(PLACE, "0" * 64, name), 1, NOW - age, "")


def test_what_no_application_names_goes_when_it_is_old() -> None:
    old, young, named = brought("a.py", KEPT), brought("b.py", KEPT / 2), brought("c.py", 2 * KEPT)
    assert uploads.unused([old, young, named], {named.key}, at=NOW, kept=KEPT) == [old.key]


def test_a_reported_upload_can_be_submitted_for_a_day() -> None:
    announced = brought("a.py", KEPT - timedelta(days=1, seconds=1))
    assert uploads.outlives_submission(announced, at=NOW, kept=KEPT)
    assert uploads.unused([announced], (), at=NOW + timedelta(days=1), kept=KEPT) == []
    assert not uploads.outlives_submission(brought("a.py", KEPT - timedelta(hours=23)), at=NOW, kept=KEPT)


def test_each_engine_has_a_place_of_its_own() -> None:
    assert PLACE.startswith(uploads.PREFIX)
    assert uploads.prefix_of("machine:/other") != PLACE


def test_the_keys_are_found_in_a_text() -> None:
    key = brought("my-job_1.0.jar", KEPT).key
    text = f'{{"application": "s3a://lake/{key}", "arguments": ["x"]}}'
    assert re.findall(uploads.upload_pattern(PLACE), text) == [key]


@pytest.mark.parametrize(("name", "sent"), [("a.py", "a.py"), ("ä b.py", "__b.py"), (".x", "_x"), ("-x.jar", "_x.jar")])
def test_names_become_what_an_address_can_hold(name: str, sent: str) -> None:
    assert uploads.clean_name(name) == sent
    assert re.fullmatch(uploads.NAME, sent)
