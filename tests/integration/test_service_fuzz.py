"""The service answers every request with a documented response, and never with an internal error."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks

from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore
from penstock.home import Home
from penstock.service.app import create_app
from penstock.service.context import Service

_EXAMPLES = 15
_PARTS = 8
"""The number of tests that share the operations, so that each takes seconds."""
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
_BESIDE = (
    # These call another program or never end; each has separate tests.
    r"^/v1/(changes|history|spark-history|sessions)|/ui|/wait$|^/console|spark_history_server"
)


@pytest.fixture(scope="module")
def token(records_home: Home) -> str:
    tokens = TokenStore(Database(records_home).engine())
    return tokens.create("fuzzer", {EVERY_INSTANCE: Scope.ADMINISTER})[1]


@pytest.fixture(scope="module")
def described(records_home: Home) -> Any:
    """A service over real records that starts no submitted application."""
    tokens = TokenStore(Database(records_home).engine())
    app = create_app(Service(records_home, Engine(records_home), tokens))
    return schemathesis.openapi.from_asgi("/openapi.json", app).exclude(path_regex=_BESIDE)


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_request_is_a_defect(described: Any, token: str, subtests: pytest.Subtests, part: int) -> None:
    operations = sorted((found.ok() for found in described.get_all_operations()), key=lambda one: one.label)
    assert len(operations) > 50
    for operation in operations[part::_PARTS]:
        with subtests.test(operation.label):
            fuzz(operation, token)


def fuzz(operation: Any, token: str) -> None:
    @settings(
        max_examples=_EXAMPLES,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(case=operation.as_strategy())
    def answered_as_described(case: schemathesis.Case) -> None:
        response = case.call(headers={"Authorization": f"Bearer {token}"})
        case.validate_response(response, checks=_CHECKS)

    answered_as_described()
