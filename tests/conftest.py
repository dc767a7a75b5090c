"""Fixtures and hooks that all tests share."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import settings

from penstock.catalog.database import Database
from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.repository.listing import ApplicationReader
from penstock.home import Home
from tests.support import quick_java
from tests.support.database_template import DatabaseTemplate
from tests.support.service_process import Served, serving

pytest_plugins = ["tests.support.leaks"]

# A busy machine is no defect: a single test run of 300 ms says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


ROOT = Path(__file__).parent
PRIVILEGE = "needs a privilege: "
"""The prefix of a skip reason that CI accepts: this user or machine lacks a privilege that the test needs."""


LONGEST_FIRST = ("kubernetes", "chaos", "stores", "lab", "system", "browser", "integration", "unit")
"""The order in which folders run: with several workers, the last worker to end should be running a short test."""

LONGEST_VALUE = 60
"""The number of letters, or bytes, with which a value names its test."""


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten long values, which would fill the list of a run's tests."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_VALUE:
        return None
    begin = val[:LONGEST_VALUE]
    text = begin if isinstance(begin, str) else begin.decode("ascii", "backslashreplace")
    return f"{text}... of {len(val)}"


def pytest_itemcollected(item: pytest.Item) -> None:
    path = item.path.relative_to(ROOT)
    item.add_marker(getattr(pytest.mark, path.parts[0]))
    # A module's tests share its servers, so one worker runs them all. pytest-xdist reads this mark before it would see
    # one that `pytest_collection_modifyitems` of this file adds.
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(path.stem))
    if item.get_closest_marker("root") and os.geteuid() != 0:
        item.add_marker(pytest.mark.skip(reason=f"{PRIVILEGE}root"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.relative_to(ROOT).parts[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip in CI into a failure unless a privilege is missing: a target installs its own requirements."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        assert isinstance(report.longrepr, tuple)
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(PRIVILEGE):
            report.outcome = "failed"
            report.longrepr = f"Skipped in CI, where everything that a test needs is to be there: {reason}"
    return report


@pytest.fixture(scope="session")
def class_archives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of class-data archives that test homes share, kept between runs in pytest's cache."""
    cache = getattr(request.config, "cache", None)
    return tmp_path_factory.mktemp("archives") / "classes" if cache is None else cache.mkdir("java") / "classes"


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> DatabaseTemplate:
    """Database templates, made once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    return DatabaseTemplate((base if worker_id == "master" else base.parent) / "database-templates")


@pytest.fixture(scope="session")
def shared_home(
    tmp_path_factory: pytest.TempPathFactory, class_archives: Path, database_template: DatabaseTemplate
) -> Iterator[Home]:
    """A home with the embedded lake and database up, one per session: starting them takes most of a test's time.

    Its path has a space and a letter outside ASCII, as any user's may.
    """
    from penstock.clusters import machine
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("Zuhause für Tests"))
    quick_java.share_archives(home, class_archives)
    database_template.copy_to(home, metastore=True)
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    yield home
    list(installation.down())
    # pytest removes the rest of the home; files in shared memory are outside it.
    machine.remove_tiers(machine.page_cache(home))


@pytest.fixture(scope="session")
def records_home(tmp_path_factory: pytest.TempPathFactory, database_template: DatabaseTemplate) -> Iterator[Home]:
    """A home with only the embedded database up, which starts much faster than `shared_home`."""
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("records"))
    database_template.copy_to(home)
    Database(home).up()
    yield home
    # A submission in this home starts the lake, too.
    list(Installation(home).down())


@pytest.fixture
def database(records_home: Home) -> Iterator[sa.Engine]:
    engine = Database(records_home).engine()
    yield engine
    engine.dispose()


@pytest.fixture
def reader(database: sa.Engine, records: ApplicationRepository) -> ApplicationReader:
    """A reader of the applications in `records`."""
    return ApplicationReader(database, records.owner)


@pytest.fixture
def records(database: sa.Engine) -> Iterator[ApplicationRepository]:
    """The repository of a separate engine, which owns no other test's applications."""
    owner = f"test:{uuid.uuid4()}"
    yield ApplicationRepository(database, owner)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM applications WHERE engine = :owner"), {"owner": owner})


@pytest.fixture(scope="module")
def served(shared_home: Home) -> Iterator[Served]:
    """`penstock serve` over the shared home, as an administrator uses it.

    It ends with the module: it supervises applications whose supervisors the tests of other modules kill.
    """
    with serving(shared_home) as service:
        yield service


@pytest.fixture(scope="session")
def python_with(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """`python_with(module, *pip_install)`: the Python of a virtual environment in which `module` can be imported.

    The arguments are those of `pip install`, run one after the other. The environment is made once and kept in pytest's
    cache; the test is skipped where it cannot be made.
    """

    def made(module: str, *installs: list[str]) -> Path:
        cache = request.config.cache
        assert cache is not None
        directory = Path(cache.mkdir(f"python-with-{module}"))
        python = directory / "bin" / "python"
        # Another worker, or another run, may be making the same environment.
        with (directory.parent / f"{directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _imports(python, module):
                subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
                # Python compiles modules on import; compiling all of pandas takes longer than installing it.
                pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
                for install in installs:
                    ran = subprocess.run([*pip, *install], check=False, capture_output=True, text=True)
                    if ran.returncode:
                        pytest.skip(f"{install[-1]} cannot be installed: {ran.stderr.strip().splitlines()[-1:]}")
        return python

    return made


def _imports(python: Path, module: str) -> bool:
    return python.exists() and not subprocess.run([python, "-c", f"import {module}"], check=False).returncode
