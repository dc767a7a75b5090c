"""Where a home's applications run: on this machine, or on the Kubernetes that its cluster file tells of."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.clusters.backend import ClusterBackend
from penstock.clusters.local import LocalBackend
from penstock.home import Home
from penstock.model import Capacity

VARIABLE = "PENSTOCK_CLUSTER"
"""Names a cluster file, before the home's own."""


def cluster_file(home: Home) -> Path | None:
    """None where applications run on this machine."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return own if (own := own_file(home)).exists() else None


def own_file(home: Home) -> Path:
    return home.root / "cluster.yaml"


def capacity(home: Home) -> Capacity:
    """All that the clusters of this home may have: of this machine, or of its Kubernetes, which is asked now.

    Raises what `backend_of` does, and `ClusterError` where the cluster does not say.
    """
    return backend_of(home).capacity()


def backend_of(home: Home) -> ClusterBackend:
    """Raises `InvalidInput` where the cluster file cannot be read or understood. The cluster is not asked yet."""
    file = cluster_file(home)
    if file is None:
        return LocalBackend(home)
    # A client of Kubernetes is loaded only where there is one.
    from penstock.clusters.kubernetes.backend import KubernetesBackend  # noqa: PLC0415
    from penstock.clusters.kubernetes.target import read_target  # noqa: PLC0415

    return KubernetesBackend(home, read_target(file))
