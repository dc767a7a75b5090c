"""Statements that change the records are compiled once, independently of the changed values."""

from __future__ import annotations

import pytest
from sqlalchemy import Select

from penstock.engine.repository import applications
from penstock.engine.repository.applications import now, state_columns, submitted_columns
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State

SPEC = ApplicationSpec("/a.py", ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "a")
APPLICATION = Application("app-1", SPEC, State.ACCEPTED, submitted_at=now())


@pytest.mark.parametrize(
    "statement",
    [
        applications.submission_statement(
            tuple({**submitted_columns(APPLICATION), **state_columns(APPLICATION), "engine": "", "fingerprint": ""})
        ),
        applications.transition_statement(tuple(state_columns(APPLICATION))),
    ],
)
def test_sqlalchemy_remembers_the_compiled_statement(statement: Select[tuple[str]]) -> None:
    # The key is None for a statement with a part that SQLAlchemy cannot compare.
    assert statement._generate_cache_key() is not None
