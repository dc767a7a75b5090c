"""The engines by name, and the engine of an application."""

from __future__ import annotations

from typing import Protocol

from penstock.engine.engines.choice import AUTO
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.one_process import DuckDb, Sail, Trino
from penstock.engine.engines.spark import Spark
from penstock.errors import InvalidInput
from penstock.model import ApplicationSpec

SPARK: QueryEngine = Spark()
ENGINES = {engine.name: engine for engine in (SPARK, DuckDb(), Sail(), Trino())}


def engine_named(name: str) -> QueryEngine:
    """Raises `InvalidInput`."""
    if name not in ENGINES:
        raise InvalidInput(f"There is no engine “{name}”", fix=f"--engine {' or '.join(ENGINES)}")
    return ENGINES[name]


def require_choice(name: str) -> str:
    """Return the name, of an engine or `auto`. Raises `InvalidInput`."""
    return name if name == AUTO else engine_named(name).name


class Runs(Protocol):
    """A specification, as far as it says what runs."""

    @property
    def application(self) -> str: ...

    @property
    def engine(self) -> str: ...


def engine_of(runs: Runs) -> QueryEngine:
    """The engine that runs it. Raises `InvalidInput` for a name that no engine has."""
    own = next((engine for engine in ENGINES.values() if engine.program == runs.application), None)
    return own or engine_named(runs.engine)


def is_statements(spec: ApplicationSpec) -> bool:
    """Return whether the application runs SQL statements, whose results its client takes from the lake."""
    engine = engine_of(spec)
    return (spec.application, spec.main_class) == (engine.program, engine.main_class)
