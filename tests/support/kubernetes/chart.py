"""The chart, and values to render it with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "penstock"
LAKE = {"bucket": "lake", "endpoints": ["https://s3.example.com"], "credentialsSecret": "lake-credentials"}
SMALL: dict[str, Any] = {"lake": LAKE, "database": {"secret": "records"}}
NODES = {
    "pageCache": {"disk": {"path": "/var/lib/penstock/pages"}, "memory": {"path": "/dev/shm/penstock"}},  # noqa: S108
    "applications": {"scratch": {"path": "/var/lib/penstock/scratch"}},
}
OPENSHIFT = {
    **SMALL,
    **NODES,
    "openshift": True,
    "route": {"host": "penstock.apps.example.com", "sparkUiHost": "spark.apps.example.com"},
    "machineConfig": {"enabled": True, "device": "/dev/disk/by-id/nvme-x_1"},
    "monitoring": {"serviceMonitor": True, "tokenSecret": "prometheus"},
}
FULL = {
    "lake": {"bucket": "lake", "credentialsSecret": "c", "caConfigMap": "ca", "roleArn": "arn:aws:iam:::role/spark"},
    "gateways": {"addresses": [f"10.0.{high}.{low}" for high in range(2) for low in range(1, 61)], "port": 7480},
    "database": {"bundled": True, "storageClass": "fast"},
    "image": {"repository": "registry.example.com/a/penstock", "tag": "2", "pullSecrets": ["pull"]},
    "service": {
        "replicas": 2,
        "nodeSelector": {"kind": "service"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "priorityClassName": "high",
        "podAnnotations": {"a": "b"},
    },
    "applications": {
        "namespace": "spark",
        "quota": {"requests.cpu": "800", "pods": 1000},
        "limitRange": [{"type": "Container", "max": {"memory": "64Gi"}}],
        "capacity": {"cores": 800, "memory": "4000Gi"},
        "largestNode": {"cores": 64, "memory": "256Gi"},
        "nodeSelector": {"kind": "spark"},
        "tolerations": [{"key": "spark", "operator": "Exists"}],
        "environmentFrom": ["proxy"],
        "executorTemplate": {"spec": {"hostNetwork": False}},
    },
    "instances": [{"name": "team-a", "weight": 2, "cores": 200, "memory": "64g", "running": 20, "waiting": 0}],
    "pageCache": NODES["pageCache"],
    "metastore": {"enabled": True, "port": 9084, "from": [{"namespaceSelector": {"matchLabels": {"engine": "trino"}}}]},
    "networkPolicy": {"serviceFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    "ingress": {
        "enabled": True,
        "host": "penstock.example.com",
        "sparkUiHost": "spark.example.com",
        "className": "nginx",
        "tlsSecret": "front",
    },
}
# Custom resources: only a cluster with their definitions can validate them.
FOREIGN = {"Route", "MachineConfig", "ServiceMonitor"}
