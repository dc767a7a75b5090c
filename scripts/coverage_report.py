#!/usr/bin/env python3
"""Coverage of statements and branches by package, in both languages.

    coverage_report.py [--python FILE] [--jacoco FILE …] [--json FILE] [--against FILE]

`--python` is a report of `coverage json`, each `--jacoco` a CSV report of JaCoCo. `--json` writes the table for a later
`--against`, which prints the packages that have lost over two points of either figure; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath

LOSS_ALLOWED = 2.0
"""The largest accepted loss of a package, in percentage points."""

Counts = list[int]
"""Statements, covered statements, branches, covered branches."""


def of_python(file: Path) -> dict[str, Counts]:
    packages: dict[str, Counts] = defaultdict(lambda: [0, 0, 0, 0])
    for name, found in json.loads(file.read_text("utf-8"))["files"].items():
        parts = PurePath(name).parts
        package = ".".join(parts[parts.index("penstock") : -1])
        summary = found["summary"]
        _add(
            packages[package],
            summary["num_statements"],
            summary["covered_lines"],
            summary["num_branches"],
            summary["covered_branches"],
        )
    return packages


def of_jacoco(file: Path) -> dict[str, Counts]:
    packages: dict[str, Counts] = defaultdict(lambda: [0, 0, 0, 0])
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            line, line_missed = int(row["LINE_COVERED"]), int(row["LINE_MISSED"])
            branch, branch_missed = int(row["BRANCH_COVERED"]), int(row["BRANCH_MISSED"])
            _add(packages[row["PACKAGE"]], line + line_missed, line, branch + branch_missed, branch)
    return packages


def _add(counts: Counts, *more: int) -> None:
    counts[:] = [before + added for before, added in zip(counts, more, strict=True)]


def share(all_of_them: int, reached: int) -> float:
    """The covered share in per cent; 100 where there is nothing to cover."""
    return 100.0 * reached / all_of_them if all_of_them else 100.0


def losses(before: Mapping[str, Counts], after: Mapping[str, Counts]) -> list[str]:
    """Sentences on the packages that have lost more than LOSS_ALLOWED points. A removed package has lost nothing."""
    found = []
    for package in sorted(before.keys() & after.keys()):
        for what, at in (("statements", 0), ("branches", 2)):
            was, now = share(*before[package][at : at + 2]), share(*after[package][at : at + 2])
            if was - now > LOSS_ALLOWED:
                found.append(f"{package}: {what} from {was:.1f} to {now:.1f} %")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path)
    parser.add_argument("--jacoco", type=Path, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path)
    chosen = parser.parse_args()
    packages = of_python(chosen.python) if chosen.python else {}
    for file in chosen.jacoco:
        packages.update(of_jacoco(file))
    total = [sum(column) for column in zip(*packages.values(), strict=True)] if packages else [0, 0, 0, 0]
    print(f"{'package':<44} {'statements':>10}     %  {'branches':>8}     %")
    for package, counts in [*sorted(packages.items()), ("all", total)]:
        print(f"{package:<44} {counts[0]:>10} {share(*counts[:2]):>5.1f}  {counts[2]:>8} {share(*counts[2:]):>5.1f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(packages, indent=1, sort_keys=True), encoding="utf-8")
    lost = losses(json.loads(chosen.against.read_text("utf-8")), packages) if chosen.against else []
    for line in lost:
        print(f"lost: {line}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
