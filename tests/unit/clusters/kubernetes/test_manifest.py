"""The manifests of a cluster: their content, and the secrets that they never contain."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from penstock.clusters.kubernetes import layout, manifest, plan
from penstock.clusters.kubernetes.target import CacheTier, Scratch
from penstock.profiles.check import REDACTION
from penstock.runtime import jvm
from tests.unit.clusters.kubernetes.kubernetes_making import SIZE, TARGET, launch


def containers(pod: dict[str, Any]) -> dict[str, Any]:
    return {container["name"]: container for container in pod["spec"]["containers"]}


def volumes(pod: dict[str, Any]) -> dict[str, Any]:
    return {volume["name"]: volume for volume in pod["spec"]["volumes"]}


def test_a_size_becomes_requests_and_limits_with_the_overhead() -> None:
    resources = containers(manifest.driver_pod(TARGET, launch()))["driver"]["resources"]
    # 512 MiB of heap and Spark's least overhead of 384 MiB.
    assert resources == {
        "requests": {"cpu": "1000m", "memory": str(896 << 20)},
        "limits": {"cpu": "1", "memory": str(896 << 20)},
    }


def test_executors_are_asked_of_spark_in_the_same_terms() -> None:
    settings = plan.settings(replace(TARGET, cpu_request=0.5), launch())
    assert settings["spark.executor.memory"] == "2048m"
    assert settings["spark.executor.memoryOverhead"] == "384m"
    assert settings["spark.kubernetes.executor.request.cores"] == "1000m"
    assert settings["spark.kubernetes.executor.limit.cores"] == "2"
    assert settings["spark.executor.instances"] == "3"


def test_the_engine_says_what_spark_hides_whatever_a_launch_says() -> None:
    wanted = launch()
    thiefs = replace(wanted, settings={**wanted.settings, "spark.redaction.regex": "(?!)"})
    assert plan.settings(TARGET, thiefs)["spark.redaction.regex"] == REDACTION


def test_scratch_in_memory_is_part_of_an_executors_memory_and_of_no_drivers() -> None:
    size = replace(SIZE, scratch_memory_bytes=3 << 30)
    wanted = launch(spec=replace(launch().spec, size=size))
    assert plan.settings(TARGET, wanted)["spark.executor.memoryOverhead"] == f"{384 + 1024}m"
    volume = volumes(manifest.executor_template(TARGET, wanted))["scratch-memory"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": str(1 << 30)}
    assert "scratch-memory" not in volumes(manifest.driver_pod(TARGET, wanted))


def test_scratch_is_an_empty_directory_of_a_size_or_a_device_of_the_node() -> None:
    def scratch(chosen: Scratch) -> dict[str, Any]:
        made = volumes(manifest.executor_template(replace(TARGET, scratch=chosen), launch()))["spark-local-dir-1"]
        return {kind: value for kind, value in made.items() if kind != "name"}

    assert scratch(Scratch("disk", 5 << 30)) == {"emptyDir": {"sizeLimit": str(5 << 30)}}
    assert scratch(Scratch("memory", 1 << 30)) == {"emptyDir": {"medium": "Memory", "sizeLimit": str(1 << 30)}}
    assert scratch(Scratch(path="/mnt/nvme")) == {"hostPath": {"path": "/mnt/nvme", "type": "Directory"}}


def test_the_page_cache_is_a_directory_of_the_node_in_sparks_settings() -> None:
    target = replace(TARGET, page_cache={"disk": CacheTier("/var/lib/penstock/pages", 7 << 30)})
    for pod in (manifest.driver_pod(target, launch()), manifest.executor_template(target, launch())):
        assert volumes(pod)["cache-disk"]["hostPath"]["path"] == "/var/lib/penstock/pages"
    settings = plan.settings(target, launch())
    assert settings["spark.hadoop.fs.s3a.penstock.cache.disk.dir"] == "/var/penstock/cache/disk"
    assert settings["spark.hadoop.fs.s3a.penstock.cache.disk.size"] == str(7 << 30)


def test_executors_whose_node_keeps_their_pages_know_its_name_and_others_are_known_by_address() -> None:
    cached = replace(TARGET, page_cache={"disk": CacheTier("/var/lib/pages", 1 << 30)})
    node = {"name": "PENSTOCK_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    mapper = "spark.storage.replication.topologyMapper"
    assert node in containers(manifest.executor_template(cached, launch()))["executor"]["env"]
    assert plan.settings(cached, launch())[mapper] == "org.apache.spark.penstock.cluster.NodeTopology"
    assert node not in containers(manifest.executor_template(TARGET, launch()))["executor"]["env"]
    assert mapper not in plan.settings(TARGET, launch())


def test_sparks_pages_listen_on_the_drivers_loopback_alone() -> None:
    driver = containers(manifest.driver_pod(TARGET, launch(environment={"SPARK_LOCAL_IP": "10.0.0.1"})))["driver"]
    # Of several variables with one name, Kubernetes uses the last.
    assert [it["value"] for it in driver["env"] if it["name"] == "SPARK_LOCAL_IP"][-1] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in str(manifest.executor_template(TARGET, launch()))
    assert [port["containerPort"] for port in driver["ports"]] == [7078, 7079]


def test_the_driver_publishes_where_its_sidecar_reads() -> None:
    wanted = launch(environment={"SESSION": "{published}/session.json"})
    driver = containers(manifest.driver_pod(TARGET, wanted))["driver"]
    assert {"name": "SESSION", "value": "/var/penstock/work/published/session.json"} in driver["env"]


def test_no_secret_is_in_a_pod() -> None:
    wanted = launch()
    content = json.dumps([manifest.driver_pod(TARGET, wanted), plan.plan(TARGET, wanted)])
    assert "open sesame" not in content
    content = plan.content(TARGET, wanted, token="t0ken", authentication="spark-s3cret")
    assert "t0ken" not in content
    made = manifest.secret(TARGET, wanted, {"metadata": {"name": "p", "uid": "u-1"}}, content)
    assert base64.b64decode(made["data"]["keys"]) == b"open sesame"
    plain = json.loads(base64.b64decode(made["data"]["plan.json"]))
    assert "spark-s3cret" not in json.dumps(plain)


def test_what_is_made_for_a_driver_goes_with_it() -> None:
    owner = {"metadata": {"name": "app-20261122-abc", "uid": "u-1"}}
    references = manifest.secret(TARGET, launch(), owner, {})["metadata"]["ownerReferences"]
    assert [(one["kind"], one["name"], one["uid"]) for one in references] == [("Pod", "app-20261122-abc", "u-1")]
    # This setting names the pod that owns the executors.
    assert plan.settings(TARGET, launch())["spark.kubernetes.driver.pod.name"] == "app-20261122-abc"


def test_pods_may_run_where_the_restricted_policy_holds() -> None:
    for pod in (manifest.driver_pod(TARGET, launch()), manifest.executor_template(TARGET, launch())):
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert not any("hostPath" in volume for volume in pod["spec"]["volumes"])


def test_executors_have_no_token_of_the_cluster() -> None:
    assert manifest.executor_template(TARGET, launch())["spec"]["automountServiceAccountToken"] is False


def test_every_pod_says_whose_it_is_in_labels_that_kubernetes_takes() -> None:
    wanted = launch(spec=replace(launch().spec, instance="team-a_"))
    for made in (manifest.driver_pod(TARGET, wanted), manifest.executor_template(TARGET, wanted)):
        labels = made["metadata"]["labels"]
        assert (labels["penstock.io/application"], labels["penstock.io/instance"]) == (wanted.application_id, "team-a")


def test_the_environment_is_the_applications_own_word_for_word() -> None:
    environment = {
        entry["name"]: entry.get("value")
        for entry in containers(manifest.driver_pod(TARGET, launch()))["driver"]["env"]
    }
    assert environment["KEYS"] == "/var/penstock/private/keys"
    assert environment["MONEY"] == "$$(HOME)"


def test_pods_know_whether_others_share_their_scratch() -> None:
    on_nodes = replace(TARGET, scratch=Scratch(path="/mnt/nvme"))
    for target, shared in ((TARGET, False), (on_nodes, True)):
        for made in (manifest.driver_pod(target, launch()), manifest.executor_template(target, launch())):
            names = {entry["name"] for one in containers(made).values() for entry in one.get("env", [])}
            assert (layout.SHARED_SCRATCH in names) == shared


def test_local_files_travel_under_their_own_names() -> None:
    wanted = launch()
    assert layout.local_keys(wanted) == {"file-0": "files/0/ein Vergleich, 100%.py"}
    content = plan.plan(TARGET, wanted)
    assert content["submit"] == ["file:///var/penstock/launch/files/0/ein%20Vergleich%2C%20100%25.py"]
    assert content["arguments"] == ["ß", "$(HOME)"]


def test_penstocks_own_jars_are_in_the_image_and_do_not_travel() -> None:
    jar = str(jvm.penstock_jars() / "penstock-workloads.jar")
    wanted = launch(spec=replace(launch().spec, application=jar, main_class="io.penstock.Main"))
    assert layout.local_keys(wanted) == {}
    assert plan.submit_options(wanted) == ["--class", "io.penstock.Main", "penstock-jars:/penstock-workloads.jar"]


def test_placing_is_the_same_for_driver_and_executors() -> None:
    target = replace(
        TARGET,
        node_selector={"pool": "spark"},
        tolerations=({"key": "spark", "operator": "Exists"},),
        priority_class="batch",
        pull_secrets=("login",),
        labels={"team": "a"},
        environment_from=("variables",),
    )
    for pod in (manifest.driver_pod(target, launch()), manifest.executor_template(target, launch())):
        spec = pod["spec"]
        assert spec["nodeSelector"] == {"pool": "spark"}
        assert spec["tolerations"] == [{"key": "spark", "operator": "Exists"}]
        assert spec["priorityClassName"] == "batch"
        assert spec["imagePullSecrets"] == [{"name": "login"}]
        assert pod["metadata"]["labels"]["team"] == "a"
        assert pod["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "variables"}}]


def test_executors_spread_over_the_nodes_unless_a_template_says_how() -> None:
    made = manifest.executor_template(TARGET, launch())
    (wish,) = made["spec"]["topologySpreadConstraints"]
    assert wish["whenUnsatisfiable"] == "ScheduleAnyway", "an executor that finds no other node still runs"
    assert wish["labelSelector"]["matchLabels"].items() <= made["metadata"]["labels"].items()
    assert "topologySpreadConstraints" not in manifest.driver_pod(TARGET, launch())["spec"]
    own = replace(TARGET, executor_template={"spec": {"topologySpreadConstraints": []}})
    assert manifest.executor_template(own, launch())["spec"]["topologySpreadConstraints"] == []


def test_a_template_adds_and_never_takes_away() -> None:
    template = {
        "metadata": {"annotations": {"mine": "1"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{"name": "driver", "env": [{"name": "MINE", "value": "1"}], "image": "other"}],
            "volumes": [{"name": "mine", "emptyDir": {}}],
        },
    }
    pod = manifest.driver_pod(replace(TARGET, driver_template=template), launch())
    driver = containers(pod)["driver"]
    assert pod["metadata"]["annotations"]["mine"] == "1"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert driver["image"] == TARGET.image
    assert {"name": "MINE", "value": "1"} in driver["env"]
    assert "KEYS" in [entry["name"] for entry in driver["env"]]
    assert {"mine", "work"} <= set(volumes(pod))


def test_dynamic_allocation_never_takes_more_than_the_size_that_was_asked_for() -> None:
    wanted = launch(settings={"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "100"})
    settings = plan.settings(TARGET, wanted)
    assert settings["spark.dynamicAllocation.maxExecutors"] == "3"
    assert settings["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert "spark.executor.instances" not in settings
