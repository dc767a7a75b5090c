"""Bodies of the three dialects have the meaning that they have for IBM's services."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.errors import InvalidInput
from penstock.lake.model import Credentials
from penstock.model import ClusterSize, ProcessSize
from penstock.service.ibm.bodies import ApplicationRequest
from tests.unit.service.ibm.dialect_bodies import GIB, HOME, USUAL, application, details, job, recorded


def test_the_smallest_body_runs_with_the_usual_size_on_the_instances_lake() -> None:
    spec = application(recorded("v3-quick-start")).spec
    assert spec.application == "s3a://lake/examples/wordcount.py"
    assert spec.arguments == ("s3a://lake/examples/people.txt",)
    assert (spec.name, spec.size, spec.lake, spec.instance) == ("wordcount.py", USUAL, "home", "team")
    assert not spec.settings


def test_object_storage_addresses_become_the_lakes_wherever_they_stand() -> None:
    spec = application(recorded("v3-object-storage")).spec
    assert spec.application == "s3a://sales/my_spark_application.py"
    assert spec.arguments == ("arg1", "--input=s3a://sales/in", "s3a://sales/out")
    assert (spec.lake, spec.name) == ("sales", "MySparkApp")


def test_the_stores_keys_are_handed_over_apart_from_the_application() -> None:
    found = application(recorded("v3-object-storage"))
    assert found.keys == Credentials(
        "b9c0ffee00000000000000000000004b", "fa11deadbeef0000000000000000000000000000000008a"
    )
    assert "c0ffee" not in str(found.spec.to_json())
    assert "deadbeef" not in str(found.spec.to_json())
    assert "deadbeef" not in repr(found)
    assert "deadbeef" not in repr(ApplicationRequest.model_validate(recorded("v3-object-storage")).submission())


def test_the_older_jobs_size_is_the_clusters() -> None:
    spec = job(recorded("jobs-terasort")).spec
    assert spec.size == ClusterSize(ProcessSize(5, 25 * GIB), ProcessSize(8, 40 * GIB), 100)
    assert spec.application == "s3a://benchmarks/spark-terasort.jar"
    assert spec.arguments == ("s3a://benchmarks/in/1tb", "s3a://results/out/1tb")
    assert (spec.main_class, spec.lake) == ("com.example.terasort.TeraSort", "ceph")
    assert spec.settings == {"spark.sql.shuffle.partitions": "1600"}


def test_what_names_files_of_anothers_image_does_not_reach_the_application() -> None:
    assert not job(recorded("jobs-terasort")).spec.environment
    assert application(recorded("v4-volumes")).spec.environment == {"SAMPLE_ENV_KEY": "SAMPLE_VALUE"}


def test_a_python_file_of_the_older_api_has_no_main_class() -> None:
    assert job(recorded("jobs-python")).spec.main_class is None


def test_on_premises_sizes_stand_in_the_settings() -> None:
    spec = application(recorded("v4-volumes")).spec
    assert spec.size == ClusterSize(ProcessSize(1, 4 * GIB), ProcessSize(2, 8 * GIB), 3)
    assert spec.settings == {"spark.eventLog.enabled": "true"}


def test_volumes_are_directories_of_the_lake() -> None:
    spec = application(recorded("v4-volumes")).spec
    assert spec.application == "s3a://lake/volumes/my-vol-1/apps/wordcount.py"
    assert spec.arguments == ("s3a://lake/volumes/data-vol/people.txt",)


def test_the_first_on_premises_release_wrote_its_sizes_with_hyphens() -> None:
    spec = application(recorded("v4-first-release")).spec
    assert spec.size == ClusterSize(ProcessSize(1, 4 * GIB), ProcessSize(1, 4 * GIB), 2)
    assert (spec.main_class, spec.arguments) == ("org.example.Pi", ("1",))


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "../etc", "mount_path": "/myapp"},
        {"name": "a", "mount_path": "/"},
        {"name": "a", "mount_path": "myapp"},
        {"name": "a", "mount_path": "/myapp", "source_sub_path": "../b"},
    ],
)
def test_no_volume_leads_out_of_its_place(volume: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        application({**details(), "volumes": [volume]})


def test_a_path_in_a_volume_cannot_climb_out_of_it() -> None:
    body = details(application="/myapp/../../secrets/a.py")
    spec = application({**body, "volumes": [{"name": "v", "mount_path": "/myapp"}]}).spec
    assert spec.application == "s3a://lake/volumes/v/secrets/a.py"


def test_an_instances_defaults_lie_beneath_the_bodys_settings() -> None:
    defaults = {"spark.driver.memory": "8G", "ae.spark.executor.count": "7", "spark.sql.ansi.enabled": "false"}
    spec = application(details(conf={"spark.executor.instances": "2"}), defaults=defaults).spec
    assert (spec.size.driver.memory_bytes, spec.size.executors) == (8 * GIB, 2)
    assert spec.settings == {"spark.sql.ansi.enabled": "false"}


def test_lists_come_with_commas_or_as_lists_and_settings_that_hold_paths_join_them() -> None:
    conf = {"spark.submit.pyFiles": "s3a://lake/a.zip, cos://lake.svc/b.py", "spark.jars": "s3://lake/c.jar"}
    spec = application(details(jars="s3a://lake/a.jar,cos://lake.svc/b.jar", files=["s3a://lake/f"], conf=conf)).spec
    assert spec.jars == ("s3a://lake/a.jar", "s3a://lake/b.jar", "s3a://lake/c.jar")
    assert spec.python_files == ("s3a://lake/a.zip", "s3a://lake/b.py")
    assert spec.files == ("s3a://lake/f",)


@pytest.mark.parametrize(
    ("conf", "problem"),
    [
        ({"spark.executor.cores": "many"}, "spark.executor.cores"),
        ({"spark.executor.cores": "0"}, "spark.executor.cores"),
        ({"ae.spark.executor.count": "٣"}, "spark.executor.instances"),
        ({"spark.driver.memory": "-1g"}, "spark.driver.memory"),
        ({"ae.spark.autoscale.enable": "true"}, "autoscale"),
    ],
)
def test_a_size_that_cannot_be_is_refused_by_name(conf: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        application(details(conf=conf))


@pytest.mark.parametrize("count", ["000000000001" + "9" * 5000, "0000000000019999999", " " * 12, "1" + "\u00b2"])
def test_a_count_is_refused_for_all_of_its_digits_and_not_only_the_first_ones(count: str) -> None:
    with pytest.raises(InvalidInput, match=r"spark\.executor\.cores"):
        application(details(conf={"spark.executor.cores": count}))


def test_spaces_around_a_count_do_not_hide_its_digits() -> None:
    assert application(details(conf={"spark.executor.cores": " " * 12 + "5 "})).spec.size.executor.cores == 5


@pytest.mark.parametrize("memory", ["4g" + " " * 31 + "and more", "1" + "0" * 31 + "g", "4" + "0" * 5000, " " * 33])
def test_a_size_of_memory_is_refused_for_all_of_its_characters(memory: str) -> None:
    with pytest.raises(InvalidInput, match=r"spark\.driver\.memory"):
        application(details(conf={"spark.driver.memory": memory}))


def test_spaces_around_a_size_of_memory_do_not_hide_its_unit() -> None:
    spec = application(details(conf={"spark.driver.memory": " " * 31 + "4g "})).spec
    assert spec.size.driver.memory_bytes == 4 * GIB


def test_a_field_nobody_knows_is_refused_rather_than_dropped() -> None:
    with pytest.raises(ValidationError, match="num_executor"):
        application(details(num_executor=3))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_the_records_could_not_keep_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        application(details(arguments=[text]))


def test_numbers_and_switches_are_read_as_spark_would_print_them() -> None:
    spec = application(details(conf={"spark.speculation": False, "spark.task.maxFailures": 4}, arguments=[1])).spec
    assert spec.settings == {"spark.speculation": "false", "spark.task.maxFailures": "4"}
    assert spec.arguments == ("1",)
    assert spec.lake == HOME.name
