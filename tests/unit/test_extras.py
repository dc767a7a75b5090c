"""The package's extras: what each brings, which code imports it, and the refusal without it."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from penstock import extras
from penstock.cli import main
from penstock.errors import MissingRequirement

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
NAMED_OTHERWISE = {"googleapis_common_protos": "google", "grpcio": "grpc", "grpcio_status": "grpc_status"}
"""The modules of packages that have other names."""
EXTRA_MODULES = {module for modules in extras.MODULES.values() for module in modules}
NAME = re.compile(r"^[\w.-]+")
REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+).*extra == [\"'](?P<extra>\w+)[\"']")

IMPORTERS = {
    "service/*": "service",
    "lab/*": "lab",
    "image/*": "kubernetes",
    "engine/engines/duckdb/*": "duckdb",
    "engine/engines/iceberg/*": "sail",
    "engine/engines/sail/*": "sail",
    "engine/engines/trino/*": "trino",
}
"""The extra on which these modules may rely; the others rely on none."""


def test_the_extras_of_the_package_bring_the_modules() -> None:
    found: dict[str, set[str]] = {}
    required = importlib.metadata.requires("penstock") or []
    # Of these, which are always there, an extra may ask for a later version.
    always = {name[0] for line in required if "extra ==" not in line and (name := NAME.match(line))}
    for line in required:
        match = REQUIREMENT.match(line)
        if match and match["extra"] != "all" and match["name"] not in always:
            module = match["name"].replace("-", "_").lower()
            found.setdefault(match["extra"], set()).add(NAMED_OTHERWISE.get(module, module))
    assert found == {extra: set(modules) for extra, modules in extras.MODULES.items()}


def imports() -> Iterator[tuple[Path, str]]:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                yield path.relative_to(SOURCES), name.partition(".")[0]


def test_no_other_code_imports_them() -> None:
    wrong = []
    for path, module in imports():
        extra = next((extra for pattern, extra in IMPORTERS.items() if fnmatch(str(path), pattern)), None)
        allowed = set(extras.MODULES[extra]) if extra else set()
        if module in EXTRA_MODULES - allowed:
            wrong.append(f"{path} imports {module}")
    assert wrong == []


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main.main(list(arguments))
    assert ended.value.code == MissingRequirement.exit_code
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (["serve"], "uvicorn", "service"),
        (["lab", "runs"], "jinja2", "lab"),
        (["demo"], "duckdb", "lab"),
        (["image", "build", "--output", "image.tar"], "packaging", "kubernetes"),
    ],
)
def test_a_command_without_its_extra_is_refused_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    module: str,
    extra: str,
) -> None:
    for name in [name for name in sys.modules if name.startswith(("penstock.image", f"{module}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    error = refused(capsys, *arguments)
    assert f"Packages of penstock[{extra}] are not installed" in error
    assert module in error
    assert f"pip install 'penstock[{extra}]'" in error


def test_a_missing_module_of_no_extra_is_a_defect() -> None:
    assert extras.explained(ModuleNotFoundError("No module named 'penstok'", name="penstok")) is None
