"""A real API server accepts the chart's objects."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.chart import FULL, NODES, SMALL
from tests.support.kubernetes.tools import tool

pytest_plugins = ["tests.support.kubernetes.rendering"]


@pytest.mark.parametrize("values", [SMALL, {**SMALL, **NODES}, FULL], ids=["small", "nodes", "full"])
def test_a_real_api_server_takes_it(
    rendered: Any, request: pytest.FixtureRequest, tmp_path: Path, values: dict[str, Any]
) -> None:
    """The server validates and admits the objects without storing them, which covers rules that no schema states."""
    config = os.environ.get("PENSTOCK_TEST_KUBECONFIG")
    if not config:
        pytest.skip("PENSTOCK_TEST_KUBECONFIG names no cluster: make test-kubernetes")
    cache = request.config.cache
    assert cache is not None
    kubectl = tool("kubectl", cache.mkdir("kubernetes-tools"))
    # A dry run makes no namespace for the objects that follow.
    there = {"namespace": "default", "createNamespace": False}
    found = rendered({**values, "applications": {**values.get("applications", {}), **there}})
    for thing in found.values():
        thing["metadata"]["namespace"] = "default"
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(found.values()), "utf-8")
    ran = subprocess.run(
        [
            kubectl,
            "--kubeconfig",
            config,
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            tmp_path / "all.yaml",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == len(found)
