"""Kubernetes objects that put many gateways behind one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli.lake.lakes import app
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.clients.kubernetes import ExportOptions, addresses, objects, url
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes

GATEWAYS = tuple(f"http://10.0.0.{number}:7480" for number in (9, 10, 2))


def lake(*endpoints: str, **more: Any) -> Lake:
    return Lake("ceph", endpoints or GATEWAYS, "data", "file:ceph", **more)


def exported(chosen: Lake, **where: Any) -> list[dict[str, Any]]:
    found = addresses(chosen.endpoints, {host_of(endpoint): [host_of(endpoint)] for endpoint in chosen.endpoints})
    return objects(chosen, found, ExportOptions("ceph", "analytics", **where))


def host_of(endpoint: str) -> str:
    return endpoint.split("://")[1].rsplit(":", 1)[0].strip("[]")


# Extracts of the schemas of these kinds in Kubernetes 1.34 and OpenShift 4, for the fields used here.
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
LABEL = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
LABEL_VALUE = {"type": "string", "pattern": "^([A-Za-z0-9][-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"}
PORT_NUMBER = {"type": "integer", "minimum": 1, "maximum": 65535}


def closed(required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def kind(
    api: str, name: str, required: list[str], label: dict[str, Any] = NAME, /, **properties: Any
) -> dict[str, Any]:
    metadata = closed(
        ["name"],
        name=label,
        namespace=LABEL,
        labels={"type": "object", "additionalProperties": LABEL_VALUE},
        annotations={"type": "object", "additionalProperties": {"type": "string"}},
    )
    given = {"apiVersion": {"const": api}, "kind": {"const": name}, "metadata": metadata, **properties}
    return closed(["apiVersion", "kind", "metadata", *required], **given)


PORT = {"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$"}, "protocol": {"const": "TCP"}}
SCHEMAS = {
    "Service": kind(
        "v1",
        "Service",
        ["spec"],
        LABEL,
        spec=closed(
            ["ports"],
            type={"const": "ClusterIP"},
            clusterIP={"const": "None"},
            ipFamilyPolicy={"enum": ["SingleStack", "PreferDualStack", "RequireDualStack"]},
            ipFamilies={"type": "array", "items": {"enum": ["IPv4", "IPv6"]}, "minItems": 1, "maxItems": 2},
            ports={
                "type": "array",
                "minItems": 1,
                "items": closed(["port"], **PORT, port=PORT_NUMBER, targetPort=PORT_NUMBER),
            },
        ),
    ),
    "EndpointSlice": kind(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        ["addressType", "endpoints"],
        addressType={"enum": ["IPv4", "IPv6", "FQDN"]},
        ports={"type": "array", "maxItems": 100, "items": closed([], **PORT, port=PORT_NUMBER)},
        endpoints={
            "type": "array",
            "maxItems": 1000,
            "items": closed(
                ["addresses"],
                addresses={"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "string"}},
                conditions=closed([], ready={"type": "boolean"}),
            ),
        },
    ),
    "ConfigMap": kind(
        "v1",
        "ConfigMap",
        [],
        data={
            "type": "object",
            "propertyNames": {"pattern": "^[-._a-zA-Z0-9]+$"},
            "additionalProperties": {"type": "string"},
        },
    ),
    "Route": kind(
        "route.openshift.io/v1",
        "Route",
        ["spec"],
        spec=closed(
            ["to"],
            host=NAME,
            to=closed(["kind", "name"], kind={"const": "Service"}, name=LABEL, weight={"type": "integer"}),
            port=closed(["targetPort"], targetPort={"type": "string"}),
            tls=closed(
                ["termination"],
                termination={"enum": ["edge", "passthrough", "reencrypt"]},
                insecureEdgeTerminationPolicy={"enum": ["None", "Allow", "Redirect"]},
            ),
            wildcardPolicy={"enum": ["None", "Subdomain"]},
        ),
    ),
}


def by_kind(made: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in made if one["kind"] == name]


@pytest.mark.parametrize("openshift", [False, True])
@pytest.mark.parametrize("headless", [False, True])
@pytest.mark.parametrize("endpoints", [GATEWAYS, ("https://10.0.0.1",), ("http://[fd00::1]:80", "http://[fd00::2]:80")])
def test_every_object_is_one_kubernetes_takes(endpoints: tuple[str, ...], headless: bool, openshift: bool) -> None:
    made = exported(lake(*endpoints), headless=headless, openshift=openshift)
    for one in made:
        jsonschema_rs.validate(SCHEMAS[one["kind"]], one)
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made)


def test_one_service_leads_to_every_gateway() -> None:
    made = exported(lake())
    (service,), (slice_,) = by_kind(made, "Service"), by_kind(made, "EndpointSlice")
    assert "selector" not in service["spec"]  # with a selector, a controller would replace the endpoints by pods
    assert service["spec"]["ports"][0]["port"] == 80
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert slice_["ports"][0]["name"] == service["spec"]["ports"][0]["name"]
    assert slice_["ports"][0]["port"] == 7480
    listed = [address for endpoint in slice_["endpoints"] for address in endpoint["addresses"]]
    assert listed == ["10.0.0.2", "10.0.0.9", "10.0.0.10"]


def test_gateways_on_different_ports_are_behind_one_port_of_the_service() -> None:
    made = exported(lake("http://10.0.0.1:8001", "http://10.0.0.1:8002"))
    assert [slice_["ports"][0]["port"] for slice_ in by_kind(made, "EndpointSlice")] == [8001, 8002]
    assert len(by_kind(made, "Service")) == 1


def test_a_headless_name_has_the_gateways_own_port_for_nothing_translates_it() -> None:
    made = exported(lake(), headless=True)
    (service,) = by_kind(made, "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["ports"][0]["port"] == 7480
    assert by_kind(made, "ConfigMap")[0]["data"]["endpoint"] == "http://ceph.analytics.svc:7480"
    with pytest.raises(InvalidInput, match="one port"):
        exported(lake("http://10.0.0.1:8001", "http://10.0.0.1:8002"), headless=True)


def test_three_hundred_gateways_are_in_slices_of_a_hundred() -> None:
    made = exported(lake(*(f"http://10.0.{number // 200}.{number % 200 + 1}:80" for number in range(250))))
    assert [len(slice_["endpoints"]) for slice_ in by_kind(made, "EndpointSlice")] == [100, 100, 50]


def test_what_leaves_the_cluster_by_a_route_is_encrypted() -> None:
    plain = by_kind(exported(lake(), openshift=True, route_host="s3.apps.example.com"), "Route")[0]["spec"]
    assert (plain["tls"]["termination"], plain["host"]) == ("edge", "s3.apps.example.com")
    secure = by_kind(exported(lake("https://10.0.0.1:8443"), openshift=True), "Route")[0]["spec"]
    assert secure["tls"]["termination"] == "passthrough"
    assert "host" not in secure


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://127.0.0.1:7480", "loopback"),
        ("http://[::1]:7480", "loopback"),
        ("http://169.254.1.1", "one link"),
        ("http://0.0.0.0:80", "not the address of one machine"),
        ("http://224.0.0.1:80", "not the address of one machine"),
    ],
)
def test_an_address_no_pod_can_reach_is_refused_with_the_reason(endpoint: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        exported(lake("http://10.0.0.1:7480", endpoint))
    assert why in caught.value.why


def test_a_bucket_in_the_hosts_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="in the host name"):
        exported(lake(path_style=False))


@pytest.mark.parametrize("name", ["", "1st", "Ceph", "a_b", "a" * 64, "a-", "a.b", "a\nkind: Secret"])
def test_a_name_kubernetes_would_refuse_is_refused_here(name: str) -> None:
    found = addresses(GATEWAYS, {host_of(endpoint): [host_of(endpoint)] for endpoint in GATEWAYS})
    for where in (ExportOptions(name), ExportOptions("ceph", name), ExportOptions("ceph", secret=name or "-")):
        with pytest.raises(InvalidInput):
            objects(lake(), found, where)


@given(st.permutations(GATEWAYS))
def test_the_order_in_which_gateways_were_given_changes_nothing(endpoints: list[str]) -> None:
    assert exported(lake(*endpoints))[:2] == exported(lake())[:2]


def test_the_command_writes_what_can_be_applied_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    home = Home.default()
    home.create()
    Lakes(home).add(lake(), Credentials("AKID", "s3cret/key"))
    runner = CliRunner()
    printed = runner.invoke(app, ["export", "kubernetes", "--namespace", "analytics"])
    assert printed.exit_code == 0, printed.output
    assert [one["kind"] for one in yaml.safe_load_all(printed.stdout)] == ["Service", "EndpointSlice", "ConfigMap"]
    assert "ceph-credentials" in printed.stderr
    target = tmp_path / "lake.yaml"
    assert runner.invoke(app, ["export", "kubernetes", "--namespace", "analytics", "-o", str(target)]).exit_code == 0
    assert target.read_text() == printed.stdout
    assert "s3cret" not in printed.output + target.read_text()
    assert "AKID" not in printed.output + target.read_text()


def test_the_settings_of_the_configuration_lead_to_the_service() -> None:
    found = addresses(GATEWAYS, {host_of(endpoint): [host_of(endpoint)] for endpoint in GATEWAYS})
    where = ExportOptions("ceph", "analytics")
    (configuration,) = by_kind(objects(lake(), found, where), "ConfigMap")
    assert f"spark.hadoop.fs.s3a.endpoint {url(lake(), found, where)}\n" in configuration["data"]["spark.conf"]
    assert configuration["data"]["credentials-secret"] == "ceph-credentials"
