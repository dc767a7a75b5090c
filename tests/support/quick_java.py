"""A Java that starts as cheaply as it can, for tests that start dozens of short Java machines.

A `conftest.py` imports the fixtures of this module for the tests of its folder. Nothing of the product differs:
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
"""An application of a few seconds never earns back what the optimising compiler costs. The byte code of the four
thousand classes that no archive can hold is verified by the suites of the JVM modules, which run without this."""

WORTH_ARCHIVES = 20
"""A run of fewer tests that start Spark makes no archives: they cost the processor time of some ten clusters."""


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def archives_tried(java_home: Path, shared_home: Home, class_archives: Path) -> None:
    """The class-data archives, which this worker or another makes once, unless they are there from an earlier run."""
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
    """Make a Java home that is the machine's own but for its `java`; return it."""
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
    """Whatever this process starts meanwhile runs on the Java in `home`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_JAVA_HOME", str(home))
        yield


def share_archives(home: Home, directory: Path) -> None:
    """Let the class-data archives of `home` be those in `directory`, made or not."""
    home.create()
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home.cache / "classes").symlink_to(directory)


def make_archives(home: Home, directory: Path) -> None:
    """Make the archives in `directory`, which `home` shares, unless they are there or another worker makes them."""
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
