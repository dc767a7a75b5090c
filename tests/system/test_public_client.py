"""IBM's public Python client, unchanged, drives a job from its submission to its logs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.engine import Engine
from penstock.lake.registry import Lakes
from tests.support.programs import PROGRAMS
from tests.support.service_process import Served

CLIENT = "iaesdk==3.3.0"
# Its build needs a setuptools with pkg_resources, which our lock files cannot express.
BUILD = "setuptools<70"

APPLICATION = b"""
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(1000).write.mode("overwrite").parquet(sys.argv[1])
print("rows", spark.read.parquet(sys.argv[1]).count(), spark.conf.get("spark.sql.shuffle.partitions"))
spark.stop()
"""


@pytest.fixture(scope="module")
def client_python(python_with: Callable[..., Path]) -> Path:
    return python_with("iaesdk", [BUILD, "wheel"], ["--no-build-isolation", CLIENT])


def drive(python: Path, served: Served, **asked: dict[str, Any]) -> dict[str, Any]:
    run = subprocess.run(
        [python, PROGRAMS / "public_client.py", "default"],
        input=json.dumps(asked),
        env={
            "IBM_ANALYTICS_ENGINE_API_URL": served.url,
            "IBM_ANALYTICS_ENGINE_API_AUTH_TYPE": "bearerToken",
            "IBM_ANALYTICS_ENGINE_API_BEARER_TOKEN": served.token,
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    answers: dict[str, Any] = json.loads(run.stdout)
    return answers


def test_the_public_client_drives_a_job_from_submission_to_logs(client_python: Path, served: Served) -> None:
    engine = Engine(served.home)
    lake = engine.lake()
    engine.store(lake.name).put("applications/count.py", APPLICATION)
    keys = Lakes(served.home).credentials_of(lake)
    details = {
        "application": f"cos://{lake.bucket}.mystore/applications/count.py",
        "runtime": {"spark_version": "3.4"},
        "arguments": [f"cos://{lake.bucket}.mystore/from-the-public-client"],
        "conf": {
            "spark.app.name": "count",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "ae.spark.executor.count": 1,
            "spark.hadoop.fs.cos.mystore.endpoint": lake.endpoints[0],
            "spark.hadoop.fs.cos.mystore.access.key": keys.access_key,
            "spark.hadoop.fs.cos.mystore.secret.key": keys.secret_key,
        },
    }
    pair = {"hmac_access_key": keys.access_key, "hmac_secret_key": keys.secret_key}
    home = {"new_instance_id": "guid", "new_endpoint": lake.endpoints[0]}
    answers = drive(
        client_python,
        served,
        details=details,
        keys=pair,
        home={**home, **{f"new_{name}": value for name, value in pair.items()}},
    )

    assert answers["application"]["state"] == "finished", answers["application"]
    assert answers["statuses"]["create"] == 202
    assert answers["statuses"]["create_history"] == 202
    assert answers["statuses"]["create_logging"] == 201
    assert answers["statuses"]["stop_history"] == 204
    assert answers["history"]["state"] == "started"
    assert (answers["home"]["instance_id"], answers["home"]["hmac_secret_key"]) == ("guid", "****")
    assert answers["statuses"]["stop"] == answers["statuses"]["stop_again"] == 204
    assert {status for name, status in answers["statuses"].items() if not name.startswith(("create", "stop"))} == {200}
    assert answers["state"]["start_time"] < answers["state"]["end_time"]
    assert answers["application"]["application_details"]["application"] == f"{lake.root}/applications/count.py"
    assert answers["defaults"] == {"spark.driver.cores": "1", "spark.sql.shuffle.partitions": "3"}
    assert answers["listed"][:2] == [answers["second"], answers["id"]]
    assert answers["error"][:2] == ["ApiException", 404]

    logs = served.client().get(f"/v1/applications/{answers['id']}/logs/driver.out")
    assert logs.text == "rows 1000 3\n"
    assert (
        served.client().get(f"/v4/analytics_engines/default/spark_applications/{answers['id']}").json()["state"]
        == "finished"
    )
    assert served.client().get(f"/ae/spark/v2/default/v2/jobs/{answers['id']}").json()["job_state"] == "FINISHED"
    kept = [engine.artifacts.load(answers["id"], name) for name in engine.artifacts.sizes(answers["id"])]
    assert kept
    assert not [text for text in kept if keys.secret_key.encode() in text]
    assert keys.secret_key not in json.dumps(answers) + str(engine.get(answers["id"])) + str(
        list(engine.applications.events(answers["id"]))
    )


def test_bodies_of_the_other_dialects_run_to_their_end(served: Served) -> None:
    lake = Engine(served.home).lake()
    Engine(served.home).store(lake.name).put("volumes/my-vol-1/apps/count.py", APPLICATION)
    size = {"cpu": 1, "memory": "512m"}
    bodies = {
        "/v4/analytics_engines/default/spark_applications": {
            "application_details": {
                "application": "/myapp/count.py",
                "arguments": ["/data/from-v4"],
                "conf": {"spark.driver.memory": "512M", "spark.executor.memory": "512M", "ae.spark.executor.count": 1},
                "env": {"PYSPARK_PYTHON": "/opt/ibm/conda/miniconda/bin/python"},
            },
            "template_id": "spark-3.3-jaas-v2-cp4d-template",
            "volumes": [
                {"name": "cpd-instance::my-vol-1", "mount_path": "/myapp", "source_sub_path": "apps"},
                {"name": "data-vol", "mount_path": "/data"},
            ],
        },
        "/ae/spark/v2/default/v2/jobs": {
            "engine": {"type": "spark", "size": {"num_workers": 1, "worker_size": size, "driver_size": size}},
            "application_jar": f"cos://{lake.bucket}.odf/volumes/my-vol-1/apps/count.py",
            "application_arguments": [f"cos://{lake.bucket}.odf/from-the-older-api"],
            "main_class": "org.apache.spark.deploy.SparkSubmit",
        },
    }
    submitted = [served.client().post(path, json=body) for path, body in bodies.items()]
    assert [answer.status_code for answer in submitted] == [202, 201]
    for answer in submitted:
        ended = Engine(served.home).wait(answer.json()["id"], timeout_seconds=180)
        assert ended.state.value == "finished", ended.reason
        assert served.client().get(f"/v1/applications/{ended.id}/logs/driver.out").text.startswith("rows 1000")
