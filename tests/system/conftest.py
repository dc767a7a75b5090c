"""Tests of this folder start Spark: their Java machines start as cheaply as they can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import quick_java

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quick_java.make_home(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module", autouse=True)
def quick_java_machines(request: pytest.FixtureRequest, java_home: Path, class_archives: Path) -> Iterator[None]:
    with quick_java.used(java_home):
        starting = [item for item in request.session.items if item.path.is_relative_to(FOLDER)]
        if len(starting) >= quick_java.WORTH_ARCHIVES:
            quick_java.make_archives(request.getfixturevalue("shared_home"), class_archives)
        yield
