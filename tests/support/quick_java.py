"""A Java home with minimal start-up cost, for tests that start dozens of short JVMs.

A `conftest.py` imports the fixtures of this module for the tests of its folder. The product is unchanged:
`PENSTOCK_JAVA_HOME` names a Java home whose `java` adds `FLAGS`, and homes of tests share one directory of class-data
archives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.home import Home
from penstock.runtime import jvm

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""JVM options for applications of a few seconds, which never earn back the cost of the optimising compiler.

The suites of the JVM modules run without these options, so they verify the byte code of the four thousand classes that
no archive can hold.
"""

WORTH_ARCHIVES = 20
"""The least number of Spark tests for which a run makes archives: they cost the CPU time of some ten clusters."""


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def archives_tried(java_home: Path, shared_home: Home, class_archives: Path) -> None:
    """The class-data archives, which one worker makes unless an earlier run did."""
    with used(java_home):
        make_archives(shared_home, class_archives)


@pytest.fixture(scope="module", autouse=True)
def quick_java_machines(request: pytest.FixtureRequest, java_home: Path) -> Iterator[None]:
    """The Java that all tests of a folder run on."""
    starting = [item for item in request.session.items if "java_home" in getattr(item, "fixturenames", ())]
    if len(starting) >= WORTH_ARCHIVES:
        request.getfixturevalue("archives_tried")
    with used(java_home):
        yield


def make_home(directory: Path) -> Path:
    """Make a copy of the machine's Java home with another `java`, and return it."""
    real = jvm.find_java().home
    for entry in real.iterdir():
        if entry.name != "bin":
            (directory / entry.name).symlink_to(entry)
    (directory / "bin").mkdir()
    for entry in (real / "bin").iterdir():
        (directory / "bin" / entry.name).symlink_to(entry)
    java = directory / "bin" / "java"
    java.unlink()
    java.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real / "bin" / "java"))} {" ".join(FLAGS)} "$@"\n')
    java.chmod(0o755)
    return directory


@contextlib.contextmanager
def used(home: Path) -> Iterator[None]:
    """Run child processes on the Java in `home` while the context is active."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_JAVA_HOME", str(home))
        yield


def share_archives(home: Home, directory: Path) -> None:
    """Point the class-data archives of `home` to `directory`, whether they exist or not."""
    home.create()
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home.cache / "classes").symlink_to(directory)


def make_archives(home: Home, directory: Path) -> None:
    """Make the archives in `directory`, which `home` shares, unless they exist or another worker makes them."""
    from penstock.engine.installation import Installation

    lock = os.open(directory.parent / "class-archives.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Installation(home).archives.build()
    except BlockingIOError:
        pass
    except PenstockError as error:
        warnings.warn(f"Java machines start without class-data archives: {error}", stacklevel=1)
    finally:
        os.close(lock)
