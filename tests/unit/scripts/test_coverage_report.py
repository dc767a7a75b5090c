"""The coverage table sums files into packages and names lost coverage."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.coverage_report import losses, of_jacoco, of_python, share


def test_files_are_summed_into_packages(tmp_path: Path) -> None:
    one = {"num_statements": 10, "covered_lines": 5, "num_branches": 4, "covered_branches": 1}
    two = {"num_statements": 20, "covered_lines": 20, "num_branches": 0, "covered_branches": 0}
    files = {"src/penstock/lake/a.py": one, "src/penstock/lake/b.py": two, "src/penstock/home.py": two}
    (tmp_path / "python.json").write_text(json.dumps({"files": {name: {"summary": of} for name, of in files.items()}}))
    assert of_python(tmp_path / "python.json") == {"penstock.lake": [30, 25, 4, 1], "penstock": [20, 20, 0, 0]}


def test_classes_of_the_jvm_are_summed_into_packages(tmp_path: Path) -> None:
    (tmp_path / "jacoco.csv").write_text(
        "GROUP,PACKAGE,CLASS,BRANCH_MISSED,BRANCH_COVERED,LINE_MISSED,LINE_COVERED\n"
        "g,io.penstock.fs,A,1,3,2,8\n"
        "g,io.penstock.fs,B,0,2,0,5\n"
    )
    assert of_jacoco(tmp_path / "jacoco.csv") == {"io.penstock.fs": [15, 13, 6, 5]}


def test_more_than_two_points_are_a_loss_and_a_package_that_is_gone_is_none() -> None:
    before = {"a": [100, 90, 100, 50], "b": [100, 90, 0, 0], "gone": [10, 10, 0, 0]}
    after = {"a": [100, 88, 100, 47], "b": [100, 87, 0, 0]}
    assert losses(before, after) == ["a: branches from 50.0 to 47.0 %", "b: statements from 90.0 to 87.0 %"]


def test_where_there_is_nothing_to_reach_all_of_it_is_reached() -> None:
    assert share(0, 0) == 100.0
