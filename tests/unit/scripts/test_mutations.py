"""Each deliberate defect can still be made: its text stands in its file, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_text_that_a_mutation_replaces_stands_once_in_its_file(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1


def test_a_mutation_changes_something_and_has_a_name_of_its_own() -> None:
    assert all(mutation.old != mutation.new for mutation in MUTATIONS)
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
