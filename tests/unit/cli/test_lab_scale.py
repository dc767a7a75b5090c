"""Sizes that cannot be had are refused with what to type instead, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.lab import app
from penstock.cli.lab.scale import cluster_sizes
from penstock.clusters import machine
from penstock.clusters.base import Capacity
from penstock.errors import ClusterError, InvalidInput

GIB = 1 << 30


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "capacity", lambda: Capacity(cores=16, memory_bytes=64 * GIB))


def sizes(cores: str, executor_cores: int | None = None, memory: str | None = None) -> list[tuple[int, int]]:
    return [(size.executors, size.executor.cores) for size in cluster_sizes(cores, executor_cores, memory, None)]


def test_executors_are_as_large_as_divides_every_size() -> None:
    assert sizes("1,2,4") == [(1, 1), (2, 1), (4, 1)]
    assert sizes("4,8,16") == [(1, 4), (2, 4), (4, 4)]
    assert sizes("16, 8") == [(1, 8), (2, 8)]
    assert sizes("16,8", 2) == [(4, 2), (8, 2)]


def test_every_executor_core_has_the_same_memory() -> None:
    heaps = {size.executor.memory_bytes // size.executor.cores for size in cluster_sizes("4,8,16", None, None, None)}
    assert heaps == {8 * GIB // 16}


@pytest.mark.parametrize("cores", ["", "1,,2", "two", "1,0", "-1,2", "1.5,2", "²,3"])
def test_what_is_no_list_of_sizes_is_refused(cores: str) -> None:
    with pytest.raises(InvalidInput, match="not a list of sizes"):
        sizes(cores)


def test_one_size_is_no_curve() -> None:
    with pytest.raises(InvalidInput, match="One size is no curve"):
        sizes("4,4")


def test_sizes_that_are_not_whole_executors_are_refused() -> None:
    with pytest.raises(InvalidInput, match="6 cores are not a whole number of executors with 4 cores") as raised:
        sizes("4,6", 4)
    assert "--executor-cores" in raised.value.fix


def test_a_size_that_could_never_start_is_refused_before_the_others_are_measured() -> None:
    with pytest.raises(ClusterError, match="64 executor cores does not fit here") as raised:
        sizes("1,2,64")
    assert "--cores" in raised.value.fix


def test_the_template_is_a_price_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["price", "--template"])
    assert printed.exit_code == 0
    mine = tmp_path / "prices.yaml"
    mine.write_text(printed.stdout, encoding="utf-8")
    page = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["price", "--capacity", "5000t", "--prices", str(mine), "-o", str(page)])
    assert made.exit_code == 0, made.output
    assert "cost least on hard disks with 4+2" in " ".join(made.output.split())
    assert 'id="ownership"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to price"),
        (["--capacity", "100t", "--protection", "4:2"], "--protection is not understood"),
        (["--capacity", "lots"], "--capacity lots is not a size"),
    ],
)
def test_what_cannot_be_priced_is_said(arguments: list[str], says: str) -> None:
    found = CliRunner().invoke(app, ["price", *arguments])
    assert isinstance(found.exception, InvalidInput)
    assert says in str(found.exception)


def test_every_workload_on_a_cluster_can_be_scaled() -> None:
    listed = CliRunner().invoke(app, ["scale", "--help"]).output
    assert "tpcds" in listed
    assert "blocks" not in listed
