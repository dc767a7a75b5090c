"""The rendered chart is valid for Kubernetes and does what its values promise."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.catalog.secrets import KEY_FILE_VARIABLE, Sealer
from penstock.cli.main import command
from penstock.clusters.kubernetes import preflight
from penstock.clusters.kubernetes.target import parse_target
from penstock.image import contents
from penstock.model import Capacity, Node
from tests.support.kubernetes.chart import CHART, FOREIGN, FULL, LAKE, NODES, OPENSHIFT, SMALL
from tests.support.kubernetes.objects import check

pytest_plugins = ["tests.support.kubernetes.rendering"]


@pytest.mark.parametrize(
    "values", [SMALL, {**SMALL, **NODES}, OPENSHIFT, FULL], ids=["small", "nodes", "openshift", "full"]
)
def test_helm_and_kubernetes_own_schemas_find_nothing_wrong(helm: Any, rendered: Any, values: dict[str, Any]) -> None:
    linted = helm("lint", "--strict", str(CHART), values=values)
    assert linted.returncode == 0, linted.stdout
    found = rendered(values)
    for (kind, _), thing in found.items():
        if kind not in FOREIGN:
            check(thing)
    assert {kind for kind, _ in found} & FOREIGN == (FOREIGN if values is OPENSHIFT else set())


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"lake": {**LAKE, "bucket": ""}}, "lake.bucket is needed"),
        ({"lake": {**LAKE, "endpoints": []}}, "A lake is needed"),
        ({"lake": {**LAKE, "endpoints": ["http://x/path"]}}, "lake/endpoints/0"),
        ({"lake": {**LAKE, "name": "x' ; rm -rf /"}}, "lake/name"),
        ({"database": {}}, "A database is needed"),
        ({"databse": {}}, "databse"),
        ({"gateways": {"addresses": ["10.0.0.1"]}}, "either as lake.endpoints"),
        ({"applications": {"scratch": {"medium": "tape"}}}, "medium"),
        ({"service": {"replicas": 0}}, "replicas"),
        ({"service": {"sparkUiUrl": "https://spark.example.com/path"}}, "sparkUiUrl"),
        ({"ingress": {"enabled": True, "host": "a.example.com"}}, "ingress.sparkUiHost is needed"),
        (
            {"ingress": {"enabled": True, "host": "a.example.com", "sparkUiHost": "a.example.com"}},
            "could read the console's token",
        ),
        (
            {"openshift": True, "route": {"host": "a.example.com", "sparkUiHost": "a.example.com"}},
            "could read the console's token",
        ),
        ({"metastore": {"enabled": True}}, "metastore.from is needed"),
        ({"machineConfig": {"enabled": True, "device": "/dev/sdb"}}, "set openshift=true"),
        ({"machineConfig": {"path": "/var/lib/pen-stock"}}, "machineConfig/path"),
        ({"monitoring": {"serviceMonitor": True}}, "monitoring.tokenSecret is needed"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_applied(
    helm: Any, wrong: dict[str, Any], expected: str
) -> None:
    values = {**SMALL, **wrong}
    if wrong == {"database": {}}:
        values["database"] = {}
    ran = helm("template", "penstock", str(CHART), values=values)
    assert ran.returncode != 0
    assert expected in ran.stderr


def test_it_is_the_release_of_the_package_and_its_image(rendered: Any) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == penstock.__version__
    deployment = rendered(SMALL)["Deployment", "penstock"]
    images = {one["image"] for one in _containers(deployment)}
    assert images == {f"penstock:{penstock.__version__}"}


def test_every_pod_of_the_service_is_the_same_engine_in_the_records(rendered: Any) -> None:
    """The next pod continues the last one's work: the records identify it by its host name."""
    pod = rendered(SMALL)["Deployment", "penstock"]["spec"]["template"]["spec"]
    assert pod["hostname"] == "analytics-penstock"
    homes = {
        mount["mountPath"] for one in pod["containers"] for mount in one["volumeMounts"] if mount["name"] == "home"
    }
    assert homes == {contents.HOME}


def test_every_container_runs_without_rights_and_cannot_change_its_image(rendered: Any) -> None:
    for (kind, name), thing in rendered(FULL).items():
        if kind not in ("Deployment", "StatefulSet", "DaemonSet"):
            continue
        for container in _containers(thing):
            confined = container["securityContext"]
            assert confined["allowPrivilegeEscalation"] is False, name
            assert confined["capabilities"] == {"drop": ["ALL"]}, name
            assert confined["readOnlyRootFilesystem"] is True, name
            assert "limits" in container["resources"], name


def test_root_runs_only_where_it_makes_the_nodes_directories(rendered: Any) -> None:
    found = rendered({**SMALL, **NODES})
    as_root = [
        (name, container["name"])
        for (_, name), thing in found.items()
        for container in _containers(thing)
        if container["securityContext"].get("runAsUser") == 0
    ]
    assert as_root == [("penstock-node-directories", "permissions")]
    assert not [name for kind, name in rendered(SMALL) if kind == "DaemonSet"]


def test_accounts_may_do_what_is_needed_and_only_in_the_applications_namespace(rendered: Any) -> None:
    found = rendered(SMALL)
    for name in ("penstock", "penstock-driver"):
        role = found["Role", name]
        assert role["metadata"]["namespace"] == "analytics-applications"
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
    everywhere = [rule for (kind, _), thing in found.items() if kind == "ClusterRole" for rule in thing["rules"]]
    assert everywhere == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    # Quotas and limits are read where that is permitted, and ignored where it is not.
    looks_at = (preflight.Permission(name, ("list",)) for name in ("resourcequotas", "limitranges"))
    engine = (*preflight.ENGINE, *looks_at)
    for name, needed in (("penstock", engine), ("penstock-driver", preflight.DRIVER)):
        assert _rights(found["Role", name]) == {one.resource: set(one.verbs) for one in needed}
    # A driver's service account must not give its program access to secrets.
    assert "secrets" not in _rights(found["Role", "penstock-driver"])
    assert found["ServiceAccount", "penstock-executor"]["automountServiceAccountToken"] is False


def test_programs_run_away_from_the_service_s_secrets_in_a_namespace_as_strict_as_they_allow(rendered: Any) -> None:
    def level(values: dict[str, Any]) -> str:
        namespace = rendered(values)["Namespace", "analytics-applications"]
        found: str = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        return found

    assert level(SMALL) == "restricted"
    assert level({**SMALL, **NODES}) == "privileged"


def test_a_policy_limits_the_pods_of_a_namespace_that_admits_the_nodes_directories(rendered: Any) -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policy, binding = (rendered({**SMALL, **NODES})[kind, "analytics-penstock-pods"]["spec"] for kind in kinds)
    variables = {one["name"]: one["expression"] for one in policy["variables"]}
    paths = [tier["path"] for tier in NODES["pageCache"].values()]
    assert json.loads(variables["directories"]) == [*paths, NODES["applications"]["scratch"]["path"]]
    assert binding["matchResources"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "analytics-applications"}
    }
    assert binding["validationActions"] == ["Deny"]
    other = {**NODES["applications"], "admissionPolicy": False}
    for values in (SMALL, {**SMALL, **NODES, "applications": other}):
        assert not {kind for kind, _ in rendered(values)} & set(kinds)


@pytest.mark.parametrize("scratch", ["/mnt", "/mnt/nvme"])
def test_no_directory_of_the_nodes_lies_below_another(helm: Any, scratch: str) -> None:
    """A pod that writes to the upper one could replace the lower one by a link to the node's root."""
    values = {"pageCache": {"disk": {"path": "/mnt/nvme/pages"}}, "applications": {"admissionPolicy": False}}
    values["applications"]["scratch"] = {"path": scratch}
    refused = helm("template", "penstock", str(CHART), values={**SMALL, **values})
    assert refused.returncode != 0
    assert f"/mnt/nvme/pages lies below {scratch}" in refused.stderr


def test_nodes_directories_need_a_server_that_can_limit_pods(helm: Any) -> None:
    def run(version: str, values: dict[str, Any]) -> Any:
        return helm("template", "penstock", str(CHART), "--kube-version", version, values={**SMALL, **values})

    refused = run("1.29.9", NODES)
    assert refused.returncode != 0
    assert "Directories of the nodes need a ValidatingAdmissionPolicy (Kubernetes 1.30)" in refused.stderr
    for version, values in (("1.30.0", NODES), ("1.30.4-eks-1", NODES), ("1.29.9", {})):
        assert run(version, values).returncode == 0


@pytest.mark.parametrize("values", [SMALL, {**SMALL, **NODES}, FULL], ids=["small", "nodes", "full"])
def test_the_engine_takes_the_cluster_file(rendered: Any, values: dict[str, Any]) -> None:
    parse_target(rendered(values)["ConfigMap", "penstock"]["data"]["cluster.yaml"], "cluster.yaml")


def test_the_cluster_file_says_what_the_values_do(rendered: Any) -> None:
    target = parse_target(rendered(FULL)["ConfigMap", "penstock"]["data"]["cluster.yaml"], "cluster.yaml")
    assert target.namespace == "spark"
    assert target.image == "registry.example.com/a/penstock:2"
    assert (target.service_account, target.executor_service_account) == ("penstock-driver", "penstock-executor")
    assert target.pull_secrets == ("pull",)
    assert target.page_cache["disk"].path == "/var/lib/penstock/pages"
    assert target.page_cache["memory"].size_bytes == 8 << 30
    assert target.capacity == Capacity(800, 4000 << 30)
    assert target.largest_node == Node(64, 256 << 30)
    assert target.environment_from == ("proxy",)
    assert target.executor_template == {"spec": {"hostNetwork": False}}


def test_each_command_that_prepares_the_service_is_one_that_penstock_has(rendered: Any) -> None:
    script = rendered(FULL)["ConfigMap", "penstock"]["data"]["prepare.sh"]
    commands = _commands(script)
    assert [words[:2] for words in commands] == [["lake", "add"], ["instance", "set"], ["token", "create"]]
    for words in commands:
        assert _understood(words)["name"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (SMALL, None),
        (FULL, "https://spark.example.com"),
        (OPENSHIFT, "https://spark.apps.example.com"),
        ({**SMALL, "service": {"sparkUiUrl": "https://spark.example.com:8441"}}, "https://spark.example.com:8441"),
        ({**SMALL, "ingress": {"enabled": True, "host": "a.b", "sparkUiHost": "c.b"}}, "http://c.b"),
    ],
    ids=["small", "full", "openshift", "named", "without-tls"],
)
def test_sparks_pages_have_an_origin_of_their_own_and_the_service_knows_it(
    rendered: Any, values: dict[str, Any], expected: str | None
) -> None:
    found = rendered(values)
    (container,) = found["Deployment", "penstock"]["spec"]["template"]["spec"]["containers"]
    options = _understood(container["args"][1:])
    assert (options["port"], options["spark_ui_port"], options["spark_ui_url"]) == (8440, 8441, expected)
    ports = {one["name"]: one["port"] for one in found["Service", "penstock"]["spec"]["ports"]}
    assert ports == {"https": 8440, "spark-ui": 8441}
    assert {one["name"]: one["containerPort"] for one in container["ports"]} == ports
    (rule,) = found["NetworkPolicy", "penstock"]["spec"]["ingress"]
    assert {one["port"] for one in rule["ports"]} == set(ports)


def test_each_host_in_front_leads_to_one_port(rendered: Any) -> None:
    rules = rendered(FULL)["Ingress", "penstock"]["spec"]["rules"]
    leads = {one["host"]: one["http"]["paths"][0]["backend"]["service"]["port"]["name"] for one in rules}
    assert leads == {"penstock.example.com": "https", "spark.example.com": "spark-ui"}
    routes = [thing["spec"] for (kind, _), thing in rendered(OPENSHIFT).items() if kind == "Route"]
    assert {one["host"]: one["port"]["targetPort"] for one in routes} == {
        "penstock.apps.example.com": "https",
        "spark.apps.example.com": "spark-ui",
    }


def test_hundred_gateways_and_more_are_behind_one_name(rendered: Any) -> None:
    found = rendered(FULL)
    slices = [thing for (kind, _), thing in found.items() if kind == "EndpointSlice"]
    addresses = [one["addresses"][0] for thing in slices for one in thing["endpoints"]]
    assert sorted(addresses) == sorted(FULL["gateways"]["addresses"])  # type: ignore[index]
    assert max(len(thing["endpoints"]) for thing in slices) <= 100
    assert {thing["metadata"]["labels"]["kubernetes.io/service-name"] for thing in slices} == {"penstock-gateways"}
    assert "selector" not in found["Service", "penstock-gateways"]["spec"]
    assert "http://penstock-gateways.analytics.svc:80'" in found["ConfigMap", "penstock"]["data"]["prepare.sh"]


def test_a_headless_name_resolves_to_the_gateways_on_their_own_port(rendered: Any) -> None:
    found = rendered({**FULL, "gateways": {"addresses": ["10.0.0.1"], "port": 7480, "mode": "headless"}})
    service = found["Service", "penstock-gateways"]["spec"]
    assert service["clusterIP"] == "None"
    assert service["ports"][0]["port"] == service["ports"][0]["targetPort"] == 7480
    assert "http://penstock-gateways.analytics.svc:7480'" in found["ConfigMap", "penstock"]["data"]["prepare.sh"]


def test_no_secret_is_in_an_argument_or_a_configuration(rendered: Any) -> None:
    found = rendered(FULL)
    secret = found["Secret", "penstock-database"]["stringData"]
    others = [thing for (kind, _), thing in found.items() if kind != "Secret"]
    for password in (secret["password"], secret["catalogPassword"]):
        assert len(password) == 40
        assert password not in yaml.safe_dump_all(others)


def test_pods_of_the_service_share_their_secrets_sealed_with_a_key_that_the_database_does_not_have(
    rendered: Any, tmp_path: Path
) -> None:
    found = rendered(FULL)
    file = tmp_path / "key"
    file.write_bytes(base64.b64decode(found["Secret", "penstock-secrets-key"]["data"]["key"]))
    assert Sealer.of_file(file).open("a", Sealer.of_file(file).seal("a", {"b": "c"})) == {"b": "c"}
    assert _naming(found, "penstock-secrets-key") == [("Deployment", "penstock")]
    for container in _containers(found["Deployment", "penstock"]):
        environment = {one["name"]: one.get("value", "") for one in container["env"]}
        mounts = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "key"]
        assert [str(Path(environment[KEY_FILE_VARIABLE]).parent)] == mounts
    given = rendered({**SMALL, "secretsKey": {"secret": "mine"}})
    assert ("Secret", "penstock-secrets-key") not in given
    assert _naming(given, "mine") == [("Deployment", "penstock")]


def test_applications_on_the_bundled_database_have_a_login_of_their_own(rendered: Any) -> None:
    secret = rendered(FULL)["Secret", "penstock-database"]["stringData"]
    assert secret["catalogPassword"] != secret["password"]
    server = "penstock-database.analytics.svc:5432/"
    assert secret["url"] == f"postgresql://penstock:{secret['password']}@{server}postgres"
    assert secret["catalogUrl"] == f"postgresql://applications:{secret['catalogPassword']}@{server}"


def test_the_bundled_database_may_write_to_its_volume_and_openshift_says_as_whom(rendered: Any) -> None:
    def group(values: dict[str, Any]) -> Any:
        pod = rendered({**SMALL, "database": {"bundled": True}, **values})["StatefulSet", "penstock-database"]
        return pod["spec"]["template"]["spec"]["securityContext"].get("fsGroup")

    assert group({}) == 1000
    # OpenShift's id ranges differ by namespace, and it refuses an id outside of them.
    assert group({"openshift": True}) is None


def test_openshift_s_device_is_formatted_only_where_it_is_empty_and_mounted_before_pods_start(rendered: Any) -> None:
    units = {
        unit["name"]: unit["contents"]
        for unit in rendered(OPENSHIFT)["MachineConfig", "98-worker-penstock-device"]["spec"]["config"]["systemd"][
            "units"
        ]
    }
    assert set(units) == {"penstock-format.service", "var-lib-penstock.mount"}
    assert 'blkid "$(readlink -f /dev/disk/by-id/nvme-x_1)" || mkfs.xfs' in units["penstock-format.service"]
    assert "Where=/var/lib/penstock\n" in units["var-lib-penstock.mount"]
    assert "Before=kubelet.service" in units["var-lib-penstock.mount"]


def _naming(found: dict[tuple[str, str], dict[str, Any]], secret: str) -> list[tuple[str, str]]:
    """Return the objects that use the Secret of that name."""
    return [
        of for of, thing in found.items() if of[0] != "Secret" and f"secretName: {secret}\n" in yaml.safe_dump(thing)
    ]


def _containers(thing: dict[str, Any]) -> list[dict[str, Any]]:
    spec = thing.get("spec", {}).get("template", {}).get("spec", {})
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def test_only_who_is_named_reaches_the_metastore_and_its_pod_knows_no_login_of_the_engine(rendered: Any) -> None:
    for values in (FULL, {**FULL, "networkPolicy": {"enabled": False}}):
        found = rendered(values)
        (rule,) = found["NetworkPolicy", "penstock-metastore"]["spec"]["ingress"]
        assert rule["from"] == FULL["metastore"]["from"]  # type: ignore[index]
        assert [one["port"] for one in rule["ports"]] == ["thrift"]
    pod = found["Deployment", "penstock-metastore"]["spec"]["template"]
    assert found["NetworkPolicy", "penstock-metastore"]["spec"]["podSelector"]["matchLabels"].items() <= (
        pod["metadata"]["labels"].items()
    )
    (container,) = pod["spec"]["containers"]
    secrets = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one]
    assert [one["key"] for one in secrets] == ["catalogUrl"]
    assert {volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume} == {"c"}
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert not [name for _, name in rendered(SMALL) if name == "penstock-metastore"]


def test_the_metastore_s_pod_serves_the_lake_on_the_port_of_its_service(rendered: Any) -> None:
    found = rendered(FULL)
    (container,) = found["Deployment", "penstock-metastore"]["spec"]["template"]["spec"]["containers"]
    added, serves = _commands(container["args"][-1])
    assert added == _commands(found["ConfigMap", "penstock"]["data"]["prepare.sh"])[0]
    options = _understood(serves)
    assert (options["host"], options["port"], options["open_to_network"]) == ("0.0.0.0", 9084, True)  # noqa: S104
    assert [one["port"] for one in found["Service", "penstock-metastore"]["spec"]["ports"]] == [9084]
    database = found["NetworkPolicy", "penstock-database"]["spec"]["ingress"][0]["from"]
    components = [one["podSelector"]["matchLabels"].get("app.kubernetes.io/component") for one in database]
    assert "metastore" in components


def _commands(script: str) -> list[list[str]]:
    """Return the words of each command of Penstock in a script of the shell."""
    lines = [line.strip().removeprefix("exec ") for line in script.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("penstock ")]


def _understood(words: list[str]) -> dict[str, Any]:
    """Return the parameters that the command parses from these words; raises its usage errors."""
    found, context = command(), None
    while hasattr(found, "resolve_command"):
        context = found.make_context(found.name, words, parent=context, resilient_parsing=True)
        _, found, words = found.resolve_command(context, words)
    parameters: dict[str, Any] = found.make_context(found.name, words, parent=context).params
    return parameters


def _rights(role: dict[str, Any]) -> dict[str, set[str]]:
    return {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
