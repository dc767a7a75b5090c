#!/usr/bin/env python3
"""Choose the Makefile targets that a change needs beside `make check` and `make test`, by the paths it touches.

    ci_plan.py                       print the targets, a line each, and the reasons on standard error
    ci_plan.py --record [TARGET …]   note in .ci/whole-pass that HEAD passed these targets, or all, in CI or on a clean
                                     clone with CI=true; commit that file with the next change

For each target, the change is everything since the commit that .ci/whole-pass names for it, the last one that passed
it. A target is chosen where no such commit is in the history, or where a path is not in the table. Of the Makefile, the
rules decide that a target needs.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / ".ci" / "whole-pass"

STORES, KUBERNETES, CHAOS, LAB = "test-stores", "test-kubernetes", "test-chaos", "test-lab"
SPARK = "test-spark"
FAULTS = "test-faults"
"""The part of CHAOS that runs applications, without the fuzzers of the JVM's code."""
TARGETS = (STORES, KUBERNETES, CHAOS, LAB, SPARK)
PYTHON = (STORES, KUBERNETES, FAULTS, LAB)
"""The targets, or parts of them, in which code in Python runs."""
_IN_ORDER = (STORES, KUBERNETES, FAULTS, CHAOS, LAB, SPARK)
MAKEFILE = "Makefile"

TABLE: Mapping[str, tuple[str, ...]] = {
    # These shape every build and every run.
    ".ci/": TARGETS,
    ".ci/whole-pass": (),
    "Makefile": TARGETS,
    "hatch_build.py": TARGETS,
    "jvm/bundle/": TARGETS,
    "jvm/pom.xml": TARGETS,
    "pyproject.toml": PYTHON,
    "requirements/": PYTHON,
    "scripts/": TARGETS,
    "scripts/ci_plan.py": (),
    "scripts/coverage_report.py": (),
    "scripts/make_reference.py": (),
    "scripts/mutations.py": (),
    "scripts/readme_chart.py": (),
    "scripts/repeat_test.py": (),
    "scripts/spark_lines.py": (),
    "scripts/with_kubernetes.py": (KUBERNETES,),
    "tests/conftest.py": PYTHON,
    "tests/support/": PYTHON,
    # `make test` covers these completely.
    ".gitignore": (),
    "CHANGELOG.md": (),
    "CONTRIBUTING.md": (),
    "LICENSE": (),
    "README.md": (),
    "SECURITY.md": (),
    "benchmarks/": (),
    "docs/": (),
    "zensical.toml": (),
    "src/penstock/cli/": (),
    "src/penstock/client/": (),
    "src/penstock/doctor.py": (),
    "src/penstock/prices.py": (),
    "src/penstock/prices.yaml": (),
    "src/penstock/service/": (),
    "tests/browser/": (),
    "tests/integration/": (),
    "tests/support/browser.py": (),
    "tests/support/console/": (),
    "tests/system/": (),
    "tests/unit/": (),
    # Each of these is a part of the product or the tests of one.
    "benchmarks/chaos/": (FAULTS,),
    "deploy/": (KUBERNETES,),
    "examples/": (LAB,),
    "jvm/application/": (LAB,),
    "jvm/catalog/": (CHAOS, LAB),
    "jvm/cluster/": (KUBERNETES, CHAOS, LAB),
    "jvm/faults/": (CHAOS, LAB),
    "jvm/filesystem/": (STORES, CHAOS, LAB),
    "jvm/filesystem/src/main/": (STORES, CHAOS, LAB, SPARK),
    "jvm/filesystem/src/test/scala/io/penstock/fs/testing/": (STORES, CHAOS, LAB, SPARK),
    "jvm/skipping/": (CHAOS,),
    "jvm/skipping/src/lines/": (CHAOS, SPARK),
    "jvm/skipping/src/main/": (CHAOS, SPARK),
    "jvm/spark-suites/": (SPARK,),
    "jvm/workloads/": (LAB,),
    "src/penstock/__init__.py": (),
    "src/penstock/": PYTHON,
    "src/penstock/catalog/": (FAULTS,),
    "src/penstock/cli/lab/": (LAB,),
    "src/penstock/clusters/": (KUBERNETES, FAULTS, LAB),
    "src/penstock/clusters/kubernetes/": (KUBERNETES,),
    "src/penstock/engine/": (KUBERNETES, FAULTS),
    "src/penstock/image/": (KUBERNETES,),
    "src/penstock/lab/": (LAB,),
    "src/penstock/lab/report/": (),
    "src/penstock/lake/": (STORES, FAULTS),
    "src/penstock/lake/ceph/": (STORES,),
    "src/penstock/lake/hdfs/": (STORES,),
    "src/penstock/profiles/": (LAB, STORES),
    "tests/chaos/": (FAULTS,),
    "tests/kubernetes/": (KUBERNETES,),
    "tests/lab/": (LAB,),
    "tests/stores/": (STORES,),
    "tests/support/kubernetes/": (KUBERNETES,),
}
"""Path prefixes and the targets that a change below them needs. The longest prefix of a path decides."""


def targets_of(path: str) -> tuple[str, ...]:
    """The targets that a change of `path` needs; all of them where no prefix of it is in the table."""
    known = [prefix for prefix in TABLE if path == prefix or (prefix.endswith("/") and path.startswith(prefix))]
    return TABLE[max(known, key=len)] if known else TARGETS


def plan(paths: Iterable[str], makefile: Iterable[str] = TARGETS) -> dict[str, str]:
    """Each target that a change of `paths` needs, with the first path that needs it, in the order of TARGETS.

    `makefile` are the targets that a change of the Makefile needs.
    """
    reasons: dict[str, str] = {}
    for path in paths:
        for target in makefile if path == MAKEFILE else targets_of(path):
            reasons.setdefault(target, path)
    if CHAOS in reasons:
        reasons.pop(FAULTS, None)
    return {target: reasons[target] for target in _IN_ORDER if target in reasons}


_RULE = re.compile(r"^([\w./-]+(?: [\w./-]+)*):(?!=)\s*([^#]*)")


def makefile_targets(before: str, after: str) -> tuple[str, ...]:
    """The targets whose rules, or those of what they need, differ; all of them where anything but a rule does."""
    (old, others), (new, other) = _rules(before), _rules(after)
    if others != other:
        return TARGETS
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}

    def is_affected(name: str) -> bool:
        return name in changed or any(is_affected(needed) for needed in _needs(new, name))

    return tuple(target for target in _IN_ORDER if is_affected(target))


def _rules(makefile: str) -> tuple[dict[str, list[str]], list[str]]:
    """The lines of each rule by its name, and the lines outside of all rules, comments and `.PHONY` aside."""
    rules: dict[str, list[str]] = {}
    others: list[str] = []
    names: list[str] = []
    for line in makefile.splitlines():
        found = _RULE.match(line)
        if found and found[1] != ".PHONY":
            names = found[1].split()
        if (found and found[1] != ".PHONY") or (line.startswith("\t") and names):
            for name in names:
                rules.setdefault(name, []).append(line)
        elif line.strip() and not line.startswith(("#", ".PHONY")):
            others.append(line)
    return rules, others


def _needs(rules: Mapping[str, list[str]], name: str) -> list[str]:
    found = _RULE.match(rules[name][0]) if name in rules else None
    return [needed for needed in found[2].split() if needed != name] if found else []


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changed_since(commit: str) -> list[str] | None:
    """The paths that differ between `commit` and HEAD; None where the history does not hold the commit."""
    try:
        _git("merge-base", "--is-ancestor", commit, "HEAD")
        return _git("diff", "--name-only", "--no-renames", commit, "HEAD").splitlines()
    except subprocess.CalledProcessError:
        return None


def passes(record: str) -> dict[str, str]:
    """The commit of each target's last pass."""
    return dict(line.split() for line in record.splitlines() if line.strip())


def recorded(record: str, targets: Iterable[str], commit: str) -> str:
    """The record after these targets have passed at `commit`."""
    known = passes(record) | dict.fromkeys(targets, commit)
    return "".join(f"{target} {known[target]}\n" for target in TARGETS if target in known)


@functools.cache
def reasons_since(commit: str) -> dict[str, str]:
    """The targets, and parts of them, that changes since `commit` need, each with its reason."""
    paths = changed_since(commit) if commit else None
    if paths is None:
        why = f"its last pass, {commit[:12]}, is not in the history" if commit else "no pass of it is recorded"
        return dict.fromkeys(TARGETS, why)
    before, after = (_git("show", f"{of}:{MAKEFILE}") for of in (commit, "HEAD"))
    return {
        target: f"{why}, since {commit[:12]}" for target, why in plan(paths, makefile_targets(before, after)).items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--record", nargs="*", metavar="TARGET", choices=TARGETS, help="note that HEAD passed these targets, or all"
    )
    arguments = parser.parse_args()
    record = RECORD.read_text(encoding="ascii") if RECORD.exists() else ""
    if arguments.record is not None:
        head = _git("rev-parse", "HEAD").strip()
        RECORD.write_text(recorded(record, arguments.record or TARGETS, head), encoding="ascii")
        return 0
    chosen: dict[str, str] = {}
    for target in TARGETS:
        since = reasons_since(passes(record).get(target, ""))
        for part in (target, FAULTS) if target == CHAOS else (target,):
            if part in since:
                chosen[part] = since[part]
    for target in _IN_ORDER:
        why = f"will run: {chosen[target]}" if target in chosen else "will not run: no changed path needs it"
        print(f"  {target:<16} {why}", file=sys.stderr)
    print("\n".join(target for target in _IN_ORDER if target in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
