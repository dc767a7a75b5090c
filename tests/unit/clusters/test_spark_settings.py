"""The settings, commands and environment of a local cluster."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters import spark_settings
from penstock.clusters.backend import Launch
from penstock.errors import MissingRequirement
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.profiles.check import REDACTION

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 1 << 30), 3)
DIRECTORY = Path("/home/jürgen o'hara/applications/app-1")


def launch(**more: object) -> Launch:
    given: dict[str, object] = {"application": "/tmp/a b, c.py", "size": SIZE, "name": "ä", **more}  # noqa: S108
    spec = ApplicationSpec(**given)  # type: ignore[arg-type]
    return Launch("app-1", spec, {"spark.driver.extraJavaOptions": "-Dx='a b'"}, {"KEYS": "{private}/keys"})


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the submitter's own")
    wanted = launch(arguments=('x "y"', ""), jars=("/j/a,b.jar", "s3a://lake/c.jar"))
    try:
        return spark_settings.shim_plan(
            DIRECTORY, wanted, spark_settings.settings(DIRECTORY, wanted), archives=Path("/nowhere")
        )
    except MissingRequirement as missing:
        pytest.skip(missing.problem)


def test_paths_with_commas_and_spaces_survive_sparks_lists(planned: dict[str, list[str]]) -> None:
    command = planned["driver"]
    at = command.index("--jars")
    assert command[at + 1] == "file:///j/a%2Cb.jar,s3a://lake/c.jar"
    assert command[-3:] == ["file:///tmp/a%20b%2C%20c.py", 'x "y"', ""]


def test_a_users_java_options_come_after_the_engines_own(planned: dict[str, list[str]]) -> None:
    command = planned["driver"]
    assert command.index("-Dx=a b") == command.index("-cp") - 1


def test_nothing_of_the_submitters_environment_reaches_the_cluster(planned: dict[str, dict[str, str]]) -> None:
    environment = planned["environment"]
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert environment["KEYS"] == f"{DIRECTORY}/private/keys"
    assert environment["LC_ALL"] == "C.UTF-8"


def test_each_cluster_has_a_secret_of_its_own_and_no_command_shows_it(planned: dict[str, list[str]]) -> None:
    one, other = (spark_settings.settings(DIRECTORY, launch())["spark.authenticate.secret"] for _ in range(2))
    assert one != other
    assert not any("authenticate.secret" in part for part in (*planned["driver"], *planned["executor"]))


def test_the_engine_says_what_spark_hides_whatever_a_launch_says() -> None:
    wanted = launch()
    thiefs = replace(wanted, settings={**wanted.settings, "spark.redaction.regex": "(?!)"})
    assert spark_settings.settings(DIRECTORY, thiefs)["spark.redaction.regex"] == REDACTION


def test_the_drivers_python_keeps_its_own_standard_error(tmp_path: Path) -> None:
    directory = tmp_path / "it's here"
    (directory / "artefacts").mkdir(parents=True)
    wrapper = tmp_path / "python"
    wrapper.write_text(spark_settings.python_wrapper(directory, {"spark.pyspark.python": "/bin/sh"}), encoding="utf-8")
    command = ["/bin/sh", wrapper, "-c", 'echo out "$1"; echo err >&2', "x", "a b"]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert ran.stdout == b"out a b\n"
    assert (directory / "artefacts" / "driver.err").read_bytes() == b"err\n"


def test_a_program_of_its_own_runs_without_executors_or_java() -> None:
    wanted = replace(
        launch(), settings={}, program=("/bin/it", "{private}/keys", "{cluster}", "{artifacts}", "{other}")
    )
    plan = spark_settings.program_plan(DIRECTORY, wanted)
    private, cluster, artifacts = (str(DIRECTORY / part) for part in ("private", "cluster", "artefacts"))
    assert plan["driver"] == ["/bin/it", f"{private}/keys", cluster, artifacts, "{other}"]
    assert plan["executors"] == 0
    assert plan["environment"]["KEYS"] == f"{private}/keys"
    assert "JAVA_HOME" not in plan["environment"]
