"""Plans that Sail is not asked to carry out."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.proto import Command, Plan

from penstock.engine.engines.sail.scripts import require_reading_plan
from penstock.errors import InvalidInput

READING = {
    "sql_command",
    "create_dataframe_view",
    "register_function",
    "register_table_function",
    "remove_cached_remote_relation_command",
}


def of_statement(query: str, *, with_views: bool = False) -> Plan:
    plan = Plan()
    relation = plan.command.sql_command.input
    if with_views:
        relation = relation.with_relations.root
    relation.sql.query = query
    return plan


@pytest.mark.parametrize("with_views", [False, True])
def test_statements_that_write_are_refused_and_others_put_into_sail_s_words(with_views: bool) -> None:
    with pytest.raises(InvalidInput, match="only reads the catalog"):
        require_reading_plan(of_statement("insert into t values (1)", with_views=with_views))
    plan = of_statement("USE sales", with_views=with_views)
    require_reading_plan(plan)
    assert plan == of_statement("USE DATABASE sales", with_views=with_views)


@pytest.mark.parametrize("command", [field.name for field in Command.DESCRIPTOR.fields])
def test_only_commands_that_are_known_to_write_nothing_pass(command: str) -> None:
    plan = Plan()
    getattr(plan.command, command).SetInParent()
    if command in READING:
        require_reading_plan(plan)
    else:
        with pytest.raises(InvalidInput) as refused:
            require_reading_plan(plan)
        assert refused.value.why == f"“{command}” may write"
        assert refused.value.fix == "run the file with --engine spark"


def test_questions_pass() -> None:
    plan = Plan()
    plan.root.range.end = 3
    require_reading_plan(plan)
