"""The start of an executor in its pod: located by its address, or by its node's name with a page cache on the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clusters.kubernetes.pod import executor
from penstock.runtime import jvm

VARIABLES = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_EXECUTOR_POD_NAME": "app-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_1": "-Dspark.app.name=two words",
    "SPARK_JAVA_OPT_0": "-XX:+UseG1GC -verbose:gc",
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "find_java", lambda: jvm.Java(Path("/java"), "17.0.1"))
    monkeypatch.setattr(jvm, "class_path", lambda **_: (Path("/jars/spark.jar"),))


def said(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_the_scheduler_knows_it_by_its_node_and_others_fetch_from_its_pod() -> None:
    command = executor.command(VARIABLES, "worker-7")
    main = command.index("org.apache.spark.penstock.cluster.NodeExecutor")
    assert command[main + 1 : main + 3] == ["--node", "worker-7"]
    assert said(command, "--hostname") == "10.1.2.4"
    # NodeExecutor runs Spark's general executor, which has no such option.
    assert "--podName" not in command


def test_without_a_node_it_is_sparks_own_for_kubernetes() -> None:
    command = executor.command(VARIABLES, None)
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in command
    assert (said(command, "--hostname"), said(command, "--podName")) == ("10.1.2.4", "app-exec-3")
    assert "--node" not in command


def test_its_temporary_files_are_in_its_working_directory() -> None:
    assert "-Djava.io.tmpdir=/own" in executor.command(VARIABLES, None, Path("/own"))


def test_java_options_keep_their_order_and_their_blanks() -> None:
    command = executor.command(VARIABLES, None)
    first = command.index("-XX:+UseG1GC")
    assert command[first : first + 3] == ["-XX:+UseG1GC", "-verbose:gc", "-Dspark.app.name=two words"]
