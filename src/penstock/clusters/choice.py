"""The backend of a home: this machine, or the Kubernetes cluster that the home's cluster file describes."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.clusters.backend import ClusterBackend
from penstock.clusters.local import LocalBackend
from penstock.home import Home
from penstock.model import Capacity

VARIABLE = "PENSTOCK_CLUSTER"
"""Names a cluster file, which takes precedence over the home's own."""


def cluster_file(home: Home) -> Path | None:
    """Return the cluster file in use; None where applications run on this machine."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return own if (own := home_cluster_file(home)).exists() else None


def home_cluster_file(home: Home) -> Path:
    return home.root / "cluster.yaml"


def capacity(home: Home) -> Capacity:
    """Return the capacity for all clusters of this home: of this machine, or of its Kubernetes cluster at present.

    Raises the errors of `backend_of`, and `ClusterError` where the Kubernetes cluster does not report its capacity.
    """
    return backend_of(home).capacity()


def backend_of(home: Home) -> ClusterBackend:
    """Return the backend, without a request to it. Raises `InvalidInput` where the cluster file is not valid."""
    file = cluster_file(home)
    if file is None:
        return LocalBackend(home)
    # Commands on homes without Kubernetes do not load its client.
    from penstock.clusters.kubernetes.backend import KubernetesBackend  # noqa: PLC0415
    from penstock.clusters.kubernetes.target import read_target  # noqa: PLC0415

    return KubernetesBackend(home, read_target(file))
