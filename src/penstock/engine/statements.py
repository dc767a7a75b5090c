"""What an application that runs SQL statements looks like, and what its arguments say. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.clusters.plan import BUILT_IN
from penstock.engine.application import ApplicationSpec, ClusterSize

_RUNNER = "io.penstock.sql.SqlRunner"
RESULTS = "penstock/results/"
"""Below it in the lake a driver writes what its statements answer, until whoever asked takes it."""


def application(
    *, name: str, lake: str, size: ClusterSize, limit: int, settings: Mapping[str, str] | None
) -> ApplicationSpec:
    """`limit` is the most rows of each result."""
    return ApplicationSpec(
        application=BUILT_IN,
        main_class=_RUNNER,
        name=name,
        profile="sql",
        lake=lake,
        size=size,
        settings=settings or {},
        arguments=("--limit", str(limit)),
    )


def arguments(*, output: str, limit: int, source: str) -> tuple[str, ...]:
    """`output` and `source` are addresses a driver can write to, and read the statements from."""
    return ("--output", output, "--limit", str(limit), "--statements-file", source)


def is_statements(spec: ApplicationSpec) -> bool:
    return spec.application == BUILT_IN and spec.main_class == _RUNNER


def limit_of(spec: ApplicationSpec) -> int:
    return int(argument(spec, "--limit") or 0)


def argument(spec: ApplicationSpec, option: str) -> str | None:
    """What follows the option, where it was given."""
    following = dict(zip(spec.arguments, spec.arguments[1:], strict=False))
    return following.get(option)
