"""A pytest plugin: helm, and the chart as helm renders it. A module of tests names the plugin in `pytest_plugins`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.chart import CHART
from tests.support.kubernetes.tools import tool

Rendered = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    cache = request.config.cache
    assert cache is not None
    program = tool("helm", cache.mkdir("kubernetes-tools"))

    def run(*arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        command = [program, *arguments, "--values", "-"]
        return subprocess.run(command, input=yaml.safe_dump(values), capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def rendered(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[dict[str, Any]], Rendered]:
    texts: dict[str, str] = {}

    def render(values: dict[str, Any]) -> Rendered:
        # Several tests use the same rendering.
        key = yaml.safe_dump(values)
        if key not in texts:
            ran = helm("template", "penstock", str(CHART), "--namespace", "analytics", values=values)
            assert ran.returncode == 0, ran.stderr
            texts[key] = ran.stdout
        found = [thing for thing in yaml.safe_load_all(texts[key]) if thing]
        by_name = {(thing["kind"], thing["metadata"]["name"]): thing for thing in found}
        assert len(by_name) == len(found), "two objects of one kind and name"
        return by_name

    return render
