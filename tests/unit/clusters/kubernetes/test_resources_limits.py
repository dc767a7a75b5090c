"""A size that exceeds a limit range of the namespace is refused before the first pod, with the allowed value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.clusters.kubernetes import preflight, resources
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.errors import ClusterError, Forbidden
from penstock.home import Home
from tests.unit.clusters.kubernetes.kubernetes_fake import FakeKubernetes
from tests.unit.clusters.kubernetes.kubernetes_making import SIZE, TARGET


def limit_range(kind: str, **bounds: dict[str, str]) -> dict[str, Any]:
    return {"kind": "LimitRange", "metadata": {"name": "team"}, "spec": {"limits": [{"type": kind, **bounds}]}}


@pytest.mark.parametrize(
    ("kind", "bounds", "said"),
    [
        # An executor has 2 GiB of heap, 384 MiB of overhead, and two cores; a driver 512 MiB of heap and one core.
        (
            "Container",
            {"max": {"memory": "2Gi"}},
            "the executor's container has a limit of 2432Mi memory, the maximum is 2Gi",
        ),
        ("Container", {"max": {"cpu": "1500m"}}, "the executor's container has a limit of 2 cpu, the maximum is 1500m"),
        ("Container", {"min": {"cpu": "100m"}}, "its sidecar's container requests 0.05 cpu, the minimum is 100m"),
        ("Pod", {"max": {"memory": "1Gi"}}, "the driver's pod has a limit of 1408Mi memory, the maximum is 1Gi"),
        ("Pod", {"max": {"cpu": "1"}}, "the driver's pod has a limit of 2 cpu, the maximum is 1"),
    ],
)
def test_a_violated_limit_is_reported_with_its_value(kind: str, bounds: dict[str, Any], said: str) -> None:
    reason = resources.limit_range_violation(SIZE, [limit_range(kind, **bounds)], TARGET)
    assert reason is not None
    assert reason.message == f"the limit range team: {said}"
    assert "--executor-memory" in reason.fix


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("Container", {"max": {"memory": "2432Mi", "cpu": "2"}, "min": {"memory": "128Mi", "cpu": "50m"}}),
        ("Pod", {"max": {"memory": "3Gi", "cpu": "2"}}),
        ("PersistentVolumeClaim", {"max": {"storage": "1Gi"}}),
        ("Container", {"default": {"memory": "1Mi"}}),
    ],
)
def test_what_is_within_bounds_is_let_through(kind: str, bounds: dict[str, Any]) -> None:
    assert resources.limit_range_violation(SIZE, [limit_range(kind, **bounds)], TARGET) is None


def test_it_is_refused_at_the_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, kubernetes = KubernetesBackend(Home(tmp_path), TARGET), FakeKubernetes()
    monkeypatch.setattr(backend, "_opened", kubernetes)
    preflight.require_allowed(backend.api, TARGET, SIZE)
    kubernetes.objects["/api/v1/namespaces/lake/limitranges/team"] = limit_range("Pod", max={"cpu": "1"})
    with pytest.raises(ClusterError, match="exceeds a limit range"):
        preflight.require_allowed(backend.api, TARGET, SIZE)


def test_who_may_not_look_at_limits_is_not_stopped_by_that() -> None:
    class Closed:
        def get(self, _: str) -> dict[str, Any]:
            raise Forbidden("Kubernetes does not permit it")

    assert resources.list_limit_ranges(Closed(), "lake") == []  # type: ignore[arg-type]
