"""A lake's gateways as Kubernetes objects: one name in the cluster for many gateways outside it. Pure.

As in the manual steps of the reference architectures, a Service without a selector has the gateways as its endpoints.
Applications know a single address, and the cluster spreads their connections. Secrets are referred to by name only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import InvalidInput
from penstock.lake.model import Lake
from penstock.lake.settings import spark_settings

Object = dict[str, Any]

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
_PORT_NAME = "s3"
_MOST_IN_A_SLICE = 100
"""The limit of Kubernetes' own controllers, which keeps updates small."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class ExportOptions:
    """The names and kinds of the exported objects."""

    name: str
    """The name of the Service, and the prefix of the others'."""
    namespace: str = "default"
    headless: bool = False
    """If true, the name resolves to every gateway, for clients that choose; else to one cluster address."""
    route_host: str | None = None
    """On OpenShift, the host name by which clients outside the cluster reach the gateways through its router."""
    openshift: bool = False
    secret: str | None = None


@dataclass(frozen=True, order=True)
class Address:
    """One gateway's address."""

    family: str
    port: int
    ip: str


def addresses(endpoints: Sequence[str], resolved: Mapping[str, Sequence[str]]) -> list[Address]:
    """The gateways' addresses without duplicates; `resolved` maps each endpoint's host to its addresses.

    Raises `InvalidInput` for an address that pods cannot reach or Kubernetes does not accept.
    """
    found = set()
    for endpoint in endpoints:
        parts = urlsplit(endpoint)
        for text in resolved[parts.hostname or ""]:
            ip = ipaddress.ip_address(text)
            if why := _unreachable(ip):
                raise InvalidInput(
                    f"The gateway {endpoint} cannot be an endpoint of a Service",
                    why=f"{ip} is {why}",
                    fix="add the lake with addresses of the gateways that the cluster's nodes reach, then export again",
                )
            found.add(Address(f"IPv{ip.version}", parts.port or _PORTS[parts.scheme], str(ip)))
    return sorted(found, key=lambda address: (address.family, address.port, int(ipaddress.ip_address(address.ip))))


def objects(
    lake: Lake, gateways: Sequence[Address], where: ExportOptions, *, authorities: str | None = None
) -> list[Object]:
    """The objects to apply, in this order; deterministic. Raises `InvalidInput`.

    `authorities` are the certificates in the lake's `ca_file`.
    """
    _check(lake, gateways, where)
    configuration = _configuration(lake, gateways, where)
    if authorities is not None:
        configuration["data"]["ca.pem"] = authorities
    result = [_service(lake, gateways, where), *_slices(gateways, where), configuration]
    return [*result, _route(lake, where)] if where.openshift else result


def secret_name(where: ExportOptions) -> str:
    return where.secret or f"{where.name}-credentials"


def url(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> str:
    """The endpoint for applications in the cluster."""
    scheme, port = _scheme(lake), _service_port(lake, gateways, where)
    host = f"{where.name}.{where.namespace}.svc"
    return f"{scheme}://{host}" + ("" if port == _PORTS[scheme] else f":{port}")


def _check(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> None:
    for kind, name in (("Service", where.name), ("namespace", where.namespace), ("Secret", secret_name(where))):
        if not _LABEL.fullmatch(name):
            raise InvalidInput(
                f"“{name[:80]}” cannot be the name of a {kind}",
                why="a name has at most 63 lower-case letters, digits and '-', begins with a letter, and does not end "
                "with '-'",
                fix="choose another: --name, --namespace, --secret",
            )
    if where.route_host is not None and not _HOST.fullmatch(where.route_host):
        raise InvalidInput(
            f"“{where.route_host[:80]}” cannot be a host",
            why="it is not a DNS name",
            fix="--route-host s3.apps.example.com",
        )
    if not lake.path_style:
        raise InvalidInput(
            f"The lake “{lake.name}” has its bucket in the host name",
            why="a Service has one name: BUCKET.SERVICE does not exist in the cluster's DNS",
            fix="add the lake with --path-style, or use the gateways' own DNS name in the cluster",
        )
    ports = {address.port for address in gateways}
    if where.headless and len(ports) > 1:
        raise InvalidInput(
            "A headless Service needs all gateways on one port",
            why="its name resolves to addresses without ports, and the gateways listen on "
            f"{', '.join(map(str, sorted(ports)))}",
            fix="omit --headless: an ordinary Service translates ports",
        )


def _unreachable(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if ip.is_loopback:
        return "a loopback address: in a pod it is the pod itself"
    if ip.is_link_local:
        return "valid on one link only"
    if ip.is_unspecified or ip.is_multicast:
        return "not the address of one machine"
    return ""


def _service(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> Object:
    families = sorted({address.family for address in gateways})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(where.name, where),
        "spec": {
            **({"clusterIP": "None"} if where.headless else {"type": "ClusterIP"}),
            "ipFamilyPolicy": "SingleStack" if len(families) == 1 else "RequireDualStack",
            "ipFamilies": families,
            "ports": [{"name": _PORT_NAME, "protocol": "TCP", **_numbers(lake, gateways, where)}],
        },
    }


def _numbers(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> Object:
    port = _service_port(lake, gateways, where)
    targets = {address.port for address in gateways}
    # Only the slices' ports matter; a single one is repeated here for readers.
    return {"port": port, "targetPort": targets.pop() if len(targets) == 1 else port}


def _service_port(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> int:
    return gateways[0].port if where.headless else _PORTS[_scheme(lake)]


def _slices(gateways: Sequence[Address], where: ExportOptions) -> Iterable[Object]:
    """One slice for each family and port, and for each hundred gateways."""
    for family, port in sorted({(address.family, address.port) for address in gateways}):
        alike = [address for address in gateways if (address.family, address.port) == (family, port)]
        for first in range(0, len(alike), _MOST_IN_A_SLICE):
            part = f"-{first // _MOST_IN_A_SLICE}" if len(alike) > _MOST_IN_A_SLICE else ""
            labels = {
                "kubernetes.io/service-name": where.name,
                "endpointslice.kubernetes.io/managed-by": "penstock.io",
            }
            yield {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": _metadata(f"{where.name}-{family.lower()}-{port}{part}", where, labels),
                "addressType": family,
                "ports": [{"name": _PORT_NAME, "protocol": "TCP", "port": port}],
                "endpoints": [
                    {"addresses": [address.ip], "conditions": {"ready": True}}
                    for address in alike[first : first + _MOST_IN_A_SLICE]
                ],
            }


def _configuration(lake: Lake, gateways: Sequence[Address], where: ExportOptions) -> Object:
    """The applications' settings for the lake, and the name of their secret, but not the secret itself."""
    settings = {**spark_settings(lake), "spark.hadoop.fs.s3a.endpoint": url(lake, gateways, where)}
    lines = (f"{name} {value}" for name, value in sorted(settings.items()))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(f"{where.name}-lake", where),
        "data": {
            "bucket": lake.bucket,
            "credentials-secret": secret_name(where),
            "endpoint": url(lake, gateways, where),
            "region": lake.region,
            "spark.conf": "\n".join(lines) + "\n",
        },
    }


def _route(lake: Lake, where: ExportOptions) -> Object:
    secure = _scheme(lake) == "https"
    return {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": {
            **_metadata(where.name, where),
            "annotations": {
                "haproxy.router.openshift.io/balance": "leastconn",
                # A large part takes longer than the router's default of 30 s.
                "haproxy.router.openshift.io/timeout": "10m",
            },
        },
        "spec": {
            **({"host": where.route_host} if where.route_host else {}),
            "to": {"kind": "Service", "name": where.name, "weight": 100},
            "port": {"targetPort": _PORT_NAME},
            # Signed requests are not secret, but data is, so the router accepts no plain HTTP.
            "tls": {"termination": "passthrough" if secure else "edge", "insecureEdgeTerminationPolicy": "None"},
            "wildcardPolicy": "None",
        },
    }


def _metadata(name: str, where: ExportOptions, labels: Mapping[str, str] | None = None) -> Object:
    own = {"app.kubernetes.io/name": where.name, "app.kubernetes.io/part-of": "penstock"}
    return {"name": name, "namespace": where.namespace, "labels": {**own, **(labels or {})}}


def _scheme(lake: Lake) -> str:
    return urlsplit(lake.endpoints[0]).scheme
