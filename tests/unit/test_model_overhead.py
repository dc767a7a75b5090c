"""The memory beside the heap follows Spark's settings, and is the same figure in the queue, the pods and Spark."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from penstock.clusters.kubernetes import manifest, plan
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.clusters.local import LocalBackend
from penstock.engine import submission
from penstock.home import Home
from penstock.model import ApplicationSpec, ClusterSize, Overhead, ProcessSize, promised
from penstock.profiles import layers
from penstock.profiles.rules import Severity
from penstock.units import parse_quantity
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET, container_of, launch
from tests.unit.profiles.test_check import problems

MIB, GIB = 1 << 20, 1 << 30
SIZE = ClusterSize(ProcessSize(1, 8 * GIB), ProcessSize(4, 10 * GIB), 3)

TABLE = [
    # the settings, whether the application is Python, driver and executor in MiB
    ({}, False, 819, 1024),
    ({}, True, 3276, 4096),
    ({"spark.executor.memoryOverhead": "2g"}, True, 3276, 2048),
    ({"spark.driver.memoryOverhead": "100"}, False, 100, 1024),
    ({"spark.driver.memoryOverhead": "0"}, False, 0, 1024),
    ({"spark.executor.memoryOverheadFactor": "0.25"}, True, 3276, 2560),
    ({"spark.driver.memoryOverheadFactor": "0.001"}, True, 384, 4096),
    ({"spark.executor.minMemoryOverhead": "3g"}, False, 819, 3072),
    ({"spark.executor.minMemoryOverhead": "3g", "spark.executor.memoryOverhead": "1g"}, False, 819, 1024),
    ({"spark.executor.memoryOverhead": "1g", "spark.executor.memoryOverheadFactor": "0.9"}, False, 819, 1024),
    ({"spark.executor.memoryOverhead": "1500k"}, False, 819, 1),
    ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}, False, 819, 2048),
    ({"spark.memory.offHeap.size": "1g"}, False, 819, 1024),
    ({"spark.executor.pyspark.memory": "512m"}, True, 3276, 4608),
    ({"spark.executor.pyspark.memory": "512m"}, False, 819, 1024),
]


def checked(settings: dict[str, str], *, python: bool, factor: float | None = None) -> ClusterSize:
    """Return the size after the engine's check of a submission to a backend with pods."""
    spec = ApplicationSpec("s3a://lake/a." + ("py" if python else "jar"), SIZE, "a", settings=settings)
    backend = KubernetesBackend(Home(Path("/nowhere")), replace(TARGET, overhead=factor))
    return submission.with_all_memory(spec, submission.effective_settings(spec), backend.overhead_factor(spec)).size


@pytest.mark.parametrize(("settings", "python", "driver", "executor"), TABLE)
def test_an_overhead_is_what_spark_would_make_of_the_settings(
    settings: dict[str, str], python: bool, driver: int, executor: int
) -> None:
    size = checked(settings, python=python)
    assert size.driver_bytes - SIZE.driver.memory_bytes == driver * MIB
    assert size.executor_bytes - SIZE.executor.memory_bytes == executor * MIB


@pytest.mark.parametrize(("settings", "python"), [row[:2] for row in TABLE])
def test_queue_pods_and_sparks_settings_have_the_same_figures(settings: dict[str, str], python: bool) -> None:
    size = replace(checked(settings, python=python), scratch_memory_bytes=3 * GIB)
    wanted = launch(spec=replace(launch().spec, size=size), settings=settings)
    driver = container_of(manifest.driver_pod(TARGET, wanted), "driver")["resources"]["limits"]["memory"]
    executor = manifest.executor_resources(size, TARGET)["limits"]["memory"]
    assert parse_quantity(driver) + 3 * parse_quantity(executor) == promised(size).memory_bytes
    given = plan.settings(TARGET, wanted)
    mebibytes = [int(given[f"spark.executor.{name}"].removesuffix("m")) for name in ("memory", "memoryOverhead")]
    assert sum(mebibytes) * MIB + layers.off_heap_bytes(given) == parse_quantity(executor)


def test_the_administrators_share_is_for_whom_the_settings_name_none() -> None:
    assert checked({}, python=True, factor=0.2).executor_overhead == Overhead(factor=0.2)
    named = checked({"spark.executor.memoryOverheadFactor": "0.3"}, python=True, factor=0.2)
    assert named.executor_overhead == Overhead(factor=0.3)


def test_on_one_machine_nobody_ends_python_for_its_memory_so_its_share_is_the_usual_one(tmp_path: Path) -> None:
    spec = ApplicationSpec("s3a://lake/a.py", SIZE, "a")
    assert LocalBackend(Home(tmp_path)).overhead_factor(spec) == layers.DEFAULT_OVERHEAD_FACTOR


def test_sizes_of_earlier_and_of_later_releases_are_read() -> None:
    old = {"driver": {"cores": 1, "memory_bytes": GIB}, "executor": {"cores": 1, "memory_bytes": GIB}, "executors": 1}
    assert ClusterSize.from_json(old).executor_overhead == Overhead()
    newer = {**old, "executor_overhead": {"factor": 0.4, "of_a_later_release": 1}}
    assert ClusterSize.from_json(newer).executor_overhead == Overhead(factor=0.4)
    size = checked({"spark.executor.memoryOverhead": "2g"}, python=False)
    assert ClusterSize.from_json(asdict(size)) == size


def test_what_an_application_asks_for_is_written_as_by_earlier_releases() -> None:
    """A client may be newer than its service, and the submission of an idempotency key older than both."""
    spec = ApplicationSpec("s3a://lake/a.py", SIZE, "a")
    assert set(spec.submitted_json()["size"]) == {"driver", "executor", "executors", "scratch_memory_bytes"}
    known = replace(spec, size=checked({"spark.executor.memoryOverhead": "2g"}, python=True))
    assert known.fingerprint() == spec.fingerprint()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.executor.memoryOverheadFactor", "0"),
        ("spark.executor.memoryOverheadFactor", "NaN"),
        ("spark.driver.memoryOverheadFactor", "-1"),
        ("spark.driver.memoryOverhead", "-1g"),
        ("spark.executor.minMemoryOverhead", "-1"),
        ("spark.executor.memoryOverhead", "-1"),
        ("spark.kubernetes.memoryOverheadFactor", "0.4"),
    ],
)
def test_what_is_no_overhead_is_refused_with_what_to_say_instead(key: str, value: str) -> None:
    (found,) = problems(key, value)
    assert found.fix
    assert found.severity is Severity.ERROR
