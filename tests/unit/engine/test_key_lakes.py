"""A lake made for keys is known by its name, which tells nothing of the keys."""

from __future__ import annotations

import pytest

from penstock.engine import keylakes
from penstock.lake.base import Credentials


@pytest.mark.parametrize("lake", ["archive", "a.b", "x" * 46])
def test_the_name_leads_back_to_the_original(lake: str) -> None:
    name = keylakes.name_for(lake, Credentials("access", "secret"))
    assert len(name) <= 63
    assert keylakes.original(name) == lake
    assert "access" not in name


def test_each_pair_of_keys_has_its_name() -> None:
    names = {keylakes.name_for("a", Credentials("k", secret)) for secret in ("one", "two", "one")}
    assert len(names) == 2


def test_other_lakes_are_nobodys_copies() -> None:
    assert keylakes.original("archive") is None
    assert keylakes.original("archive.2026") is None
