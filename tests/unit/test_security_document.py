"""For each promise of `docs/security.md` a test tries to break it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "security.md").read_text()


def test_every_promise_names_a_test_that_is_there() -> None:
    promises = DOCUMENT.split("## Promises")[1].split("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        thief = row.split("|")[2].strip().strip("`")
        if found := re.fullmatch(r"(tests/\S+\.py)::(test_\w+)", thief):
            tree = ast.parse((ROOT / found[1]).read_text())
            assert found[2] in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, row
        else:
            module, suite = re.fullmatch(r"jvm/(\w+): (\w+)", thief).groups()  # type: ignore[union-attr]
            sources = (ROOT / "jvm" / module / "src" / "test").rglob("*.scala")
            assert any(re.search(rf"^class {suite} ", file.read_text(), re.MULTILINE) for file in sources), row
