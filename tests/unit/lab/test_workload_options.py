"""A workload's options follow from its suite's fields, and reading them loads none of what measuring needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import (
    Computed,
    Option,
    numbers,
    options_of,
    parse_count,
    path,
    short_count,
    size,
    suite_of,
)
from penstock.lab.workloads.registry import NAMES, suite_class


@dataclass(frozen=True)
class Example(Suite):
    workload: ClassVar[str] = "example"

    object_size_bytes: Annotated[int, size("Size.")] = 32 << 20
    share: Annotated[float, Option("Share.", least=0, most=1)] = 0.5
    many: Annotated[tuple[int, ...], numbers("Numbers.", "of threads")] = (1, 2)
    label: Annotated[
        str,
        Option("First.", name="first"),
        Option("Second.", name="second"),
        Computed(lambda a, b: a or b, ("first", "second"), lambda label: {"second": label}),
    ] = ""
    directory: Annotated[str, path("Directory.")] = ""
    on: Annotated[bool, Option("On.")] = True
    internal: int = 7

    def repetition(self, session: Session) -> None:
        """Nothing is measured."""


def test_a_field_names_its_option_and_gives_its_default() -> None:
    assert {option.flag: option.default for option in options_of(Example)} == {
        "--object-size": "32m",
        "--share": 0.5,
        "--many": "1,2",
        "--first": None,
        "--second": None,
        "--directory": None,
        "--on": True,
    }


def test_given_values_become_the_fields() -> None:
    made = suite_of(Example, {"object_size": "1g", "share": 1, "many": [4, 8], "second": "b", "on": False})
    assert made == Example(1 << 30, 1.0, (4, 8), "b", "", on=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("object_size", 32),
        ("share", 2),
        ("share", "half"),
        ("share", None),
        ("many", "1,0"),
        ("on", "yes"),
        ("many", {}),
    ],
)
def test_an_error_names_the_option_and_a_remedy(key: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        suite_of(Example, {key: value})
    assert key.replace("_", "-") in raised.value.problem.replace("_", "-")
    assert raised.value.fix


@pytest.mark.parametrize("workload", NAMES)
def test_an_option_with_its_default_is_as_good_as_none(workload: str) -> None:
    suite = suite_class(workload)
    given = {option.key: option.default for option in options_of(suite) if option.default is not None}
    assert suite_of(suite, given) == suite_of(suite, {}) == suite()
    assert all(option.option.help for option in options_of(suite))


@pytest.mark.parametrize("count", [1, 1000, 1_500_000, 2_000_000, 10**9, 7])
def test_short_texts_are_read_as_what_they_were(count: int) -> None:
    assert parse_count(short_count(count), "--count") == count
    assert units.require_size(units.short_size(count), "--size") == count


def loaded(code: str, *names: str) -> str:
    program = f"import sys\n{code}\nprint([name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_list_of_workloads_loads_no_workload() -> None:
    code = "import penstock.cli.lab as lab, typer.main; typer.main.get_command(lab.app)"
    modules = ("penstock.lab.workloads.base", "penstock.lab.workloads.tpcds", "penstock.engine.engine", "sqlalchemy")
    assert loaded(code, *modules) == "[]"


def test_options_of_all_workloads_are_read_without_what_measures_them() -> None:
    code = (
        "from penstock.lab.workloads import registry\n"
        "assert all(registry.FileWorkloads().options(name) for name in registry.NAMES)"
    )
    assert loaded(code, "pyspark", "duckdb", "pycurl", "plotly") == "[]"
