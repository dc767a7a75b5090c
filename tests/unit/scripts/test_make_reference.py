"""The generated reference pages match the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from scripts.make_reference import pages

PAGES = pages()
COMMANDS, SETTINGS = ({path.stem: text for path, text in PAGES.items()}[name] for name in ("commands", "settings"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == PAGES[path], "make reference"


def test_commands_of_all_depths_and_all_exit_codes_are_listed() -> None:
    assert "- `run`: " in COMMANDS
    assert "`ceph` (`down`, `install`" in COMMANDS
    assert "- `table`" not in COMMANDS
    for kind in PenstockError.__subclasses__():
        assert f"- {kind.exit_code} `{kind.code}`: " in COMMANDS


def test_each_setting_of_skipping_is_listed_with_its_default() -> None:
    rows = [line for line in SETTINGS.splitlines() if line.startswith("- `")]
    assert len(rows) == 11
    assert any(row.startswith("- `dynamic.max.keys` (`10000`): ") for row in rows)
    assert any(row.startswith("- `history` (unset): ") for row in rows)
