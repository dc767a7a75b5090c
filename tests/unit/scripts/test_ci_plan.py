"""CI runs the targets that a change affects, and all of them where that is unknown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import ci_plan
from scripts.ci_plan import (
    CHAOS,
    FAULTS,
    KUBERNETES,
    LAB,
    PYTHON,
    SPARK,
    STORES,
    TARGETS,
    makefile_targets,
    plan,
    targets_of,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("docs/guide/lake.md", ()),
        ("src/penstock/lake/ceph/status.py", (STORES,)),
        ("src/penstock/lake/registry.py", (STORES, FAULTS)),
        ("src/penstock/lab/runner.py", (LAB,)),
        ("src/penstock/lab/report/page.css", ()),
        ("deploy/helm/penstock/values.yaml", (KUBERNETES,)),
        ("jvm/skipping/pom.xml", (CHAOS,)),
        ("jvm/skipping/src/main/scala/io/penstock/skipping/SkippingExtension.scala", (CHAOS, SPARK)),
        ("jvm/filesystem/src/main/scala/io/penstock/fs/PenstockFileSystem.scala", (STORES, CHAOS, LAB, SPARK)),
        ("jvm/filesystem/src/test/scala/io/penstock/fs/read/ModelTest.scala", (STORES, CHAOS, LAB)),
        ("jvm/spark-suites/pom.xml", (SPARK,)),
        ("tests/support/waiting.py", PYTHON),
        ("src/penstock/model.py", PYTHON),
        ("hatch_build.py", TARGETS),
        ("tests/support/kubernetes/tools.py", (KUBERNETES,)),
    ],
)
def test_the_longest_prefix_decides(path: str, targets: tuple[str, ...]) -> None:
    assert targets_of(path) == targets


@pytest.mark.parametrize("path", ["somewhere/new.py", "README.md.orig", "jvm/newmodule/pom.xml", "src/penstock.py"])
def test_an_unknown_path_needs_every_target(path: str) -> None:
    assert targets_of(path) == TARGETS


def test_a_plan_names_a_path_for_each_target_in_the_order_of_the_targets() -> None:
    assert plan(["tests/lab/test_a.py", "docs/design/lab.md", "src/penstock/lake/s3.py", "tests/stores/test_b.py"]) == {
        STORES: "src/penstock/lake/s3.py",
        FAULTS: "src/penstock/lake/s3.py",
        LAB: "tests/lab/test_a.py",
    }
    assert plan([]) == {}


def test_the_whole_of_a_target_makes_a_part_of_it_needless() -> None:
    assert list(plan(["tests/chaos/test_a.py", "jvm/skipping/pom.xml"])) == [CHAOS]


MAKEFILE = """
N ?= 50
.PHONY: setup test-lab
setup: build/setup.stamp ## Install
build/setup.stamp: requirements/dev.txt
\tscripts/bootstrap.sh
# A comment.
tool other: setup
\tinstall
test-lab: setup tool ## The lab
\tpytest tests/lab
test-spark: setup
\tmvn verify
"""


@pytest.mark.parametrize(
    ("before", "after", "targets"),
    [
        ("A comment.", "Another one.", ()),
        ("test-lab\nsetup:", "test-lab tool\nsetup:", ()),
        ("pytest tests/lab", "pytest -x tests/lab", (LAB,)),
        ("\tinstall", "\tinstall --yes", (LAB,)),
        ("setup tool ##", "setup tool new ##", (LAB,)),
        ("scripts/bootstrap.sh", "scripts/other.sh", (LAB, SPARK)),
        ("mvn verify", "mvn -X verify", (SPARK,)),
        ("N ?= 50", "N ?= 5", TARGETS),
    ],
)
def test_of_the_makefile_the_rules_that_a_target_needs_decide(
    before: str, after: str, targets: tuple[str, ...]
) -> None:
    assert makefile_targets(MAKEFILE, MAKEFILE.replace(before, after, 1)) == targets
    assert tuple(plan(["Makefile"], targets)) == targets
    assert tuple(plan(["Makefile"])) == TARGETS


def test_every_prefix_of_the_table_is_a_path_of_this_tree() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    later = {".ci/whole-pass"}
    gone = [prefix for prefix in ci_plan.TABLE if not any(path.startswith(prefix) for path in tracked)]
    assert set(gone) <= later


def test_a_commit_outside_the_history_is_no_base() -> None:
    assert ci_plan.changed_since("0" * 40) is None
    assert ci_plan.changed_since("HEAD") == []


def test_each_target_has_the_commit_of_its_own_last_pass() -> None:
    assert ci_plan.passes("") == {}
    record = ci_plan.recorded("", TARGETS, "a1")
    assert ci_plan.passes(record) == dict.fromkeys(TARGETS, "a1")
    record = ci_plan.recorded(record, [LAB, CHAOS], "b2")
    assert ci_plan.passes(record) == dict.fromkeys(TARGETS, "a1") | {LAB: "b2", CHAOS: "b2"}
    assert ci_plan.passes(ci_plan.recorded(record, TARGETS, "c3")) == dict.fromkeys(TARGETS, "c3")


def test_a_target_without_a_pass_in_the_history_is_chosen() -> None:
    assert set(ci_plan.reasons_since("")) == set(ci_plan.reasons_since("0" * 40)) == set(TARGETS)
    assert ci_plan.reasons_since("HEAD") == {}
