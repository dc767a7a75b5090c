"""Missing permissions and objects are found before the first pod, with the commands that add them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.clusters.kubernetes import preflight
from penstock.clusters.kubernetes.client import Access
from penstock.clusters.kubernetes.preflight import (
    Permission,
    findings,
    grant_commands,
    require_reachable,
    require_usable,
)
from penstock.errors import Forbidden, InvalidInput, NotFound
from penstock.lake.model import Lake
from penstock.model import Capacity
from tests.unit.clusters.kubernetes.kubernetes_making import TARGET, launch


class Server:
    """A server that permits everything but `refused` pairs of verb and resource, and has every object but `missing`."""

    def __init__(self, refused: set[tuple[str, str]] = frozenset(), missing: str = "-") -> None:  # type: ignore[assignment]
        self.access = Access("https://there", None, lambda: None)
        self.refused = refused
        self.missing = missing

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if path.endswith(self.missing):
            raise NotFound("there is none")
        if path.endswith("/version"):
            return {"gitVersion": "v1.34.4"}
        if path == "/api/v1/nodes":
            raise Forbidden("no", why="nodes is forbidden")
        return {}

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("selfsubjectreviews"):
            return {"status": {"userInfo": {"username": "me@here"}}}
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        return {"status": {"allowed": (asked["verb"], resource) not in self.refused}}


def bad(server: Server) -> dict[str, str]:
    return {one.subject: f"{one.text}\n{one.fix}" for one in findings(server, TARGET) if not one.ok}  # type: ignore[arg-type]


def test_only_what_is_missing_is_asked_for_word_for_word() -> None:
    found = bad(Server({("create", "pods"), ("watch", "pods"), ("create", "pods/proxy")}))
    said = found["permissions"]
    assert "me@here may not watch, create pods; create pods/proxy" in said
    assert "create role penstock-pods --verb=watch,create --resource=pods" in said
    assert "create rolebinding penstock-pods-proxy --role=penstock-pods-proxy --user=me@here" in said


def test_a_namespace_that_is_not_there_comes_with_its_command_and_nothing_else() -> None:
    assert bad(Server(missing="/namespaces/lake")) == {
        "namespace": "lake does not exist\nkubectl create namespace lake"
    }


def test_an_account_that_is_not_there_comes_with_its_command() -> None:
    assert "create serviceaccount default" in bad(Server(missing="/serviceaccounts/default"))["service account"]


def test_nodes_that_may_not_be_listed_must_be_declared() -> None:
    assert "capacity:" in bad(Server())["nodes"]


class Empty(Server):
    def get(self, path: str, **params: str) -> dict[str, Any]:
        return {"items": []} if path == "/api/v1/nodes" else super().get(path, **params)


def test_a_cluster_without_a_node_is_reported_and_refuses_no_submission() -> None:
    assert "declare capacity:" in bad(Empty())["nodes"]
    require_usable(Empty(), TARGET)  # type: ignore[arg-type]
    declared = replace(TARGET, capacity=Capacity(8, 1 << 35))
    assert all(one.ok for one in findings(Empty(), declared))  # type: ignore[arg-type]


def test_commands_name_one_namespace_and_one_subject() -> None:
    command = grant_commands([Permission("pods", ("get",))], "lake", "--serviceaccount=lake:drivers")
    assert command.splitlines() == [
        "kubectl --namespace lake create role penstock-pods --verb=get --resource=pods",
        "kubectl --namespace lake create rolebinding penstock-pods --role=penstock-pods --serviceaccount=lake:drivers",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_lake_at_a_pods_own_address_is_refused(host: str) -> None:
    lake = Lake("mine", (f"http://{host}:8333",), "bucket", "environment")
    with pytest.raises(InvalidInput) as refused:
        require_reachable(launch(lake=lake))
    assert "penstock lake add mine" in refused.value.fix


def test_an_embedded_catalog_is_refused_before_there_is_a_pod() -> None:
    site = "<value>jdbc:postgresql://{}:5432/metastore</value>"
    with pytest.raises(InvalidInput) as refused:
        require_reachable(launch(private_files={"hive-site.xml": site.format("127.0.0.1")}))
    assert "PENSTOCK_DATABASE_URL" in refused.value.fix
    require_reachable(launch(private_files={"hive-site.xml": site.format("db.example")}))


def test_a_lake_elsewhere_is_not() -> None:
    require_reachable(launch(lake=Lake("mine", ("https://s3.example",), "bucket", "environment")))
    assert not preflight.is_loopback("s3.example")
