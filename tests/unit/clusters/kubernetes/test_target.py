"""The cluster file is read as written, and every mistake is reported with its line."""

from __future__ import annotations

import pytest

from penstock.cli.cluster import _EXAMPLE
from penstock.clusters.kubernetes.target import _READERS, CacheTier, Scratch, parse_target
from penstock.errors import InvalidInput
from penstock.model import Capacity, Node

LEAST = "kind: kubernetes\nnamespace: lake\nimage: registry.example/penstock:1\n"


def test_namespace_and_image_are_enough() -> None:
    target = parse_target(LEAST, "cluster.yaml")
    assert (target.namespace, target.image) == ("lake", "registry.example/penstock:1")
    assert target.service_account == "default"


def test_every_key_of_the_example_is_understood() -> None:
    target = parse_target("\n".join(line.removeprefix("# ") for line in _EXAMPLE.splitlines()[1:]), "example")
    assert set(_READERS) <= {line.split(":")[0].removeprefix("# ") for line in _EXAMPLE.splitlines()}
    assert target.priority_class == "batch"
    assert target.capacity == Capacity(64, 256 << 30)
    assert target.largest_node == Node(16, 64 << 30)


def test_sizes_are_read_in_spark_s_and_kubernetes_words() -> None:
    target = parse_target(
        LEAST
        + "scratch: {medium: memory, size: 20Gi}\npage_cache:\n  disk: {path: /var/pages, size: 512m}\n"
        + "capacity: {cores: 8, memory: 1t}\n",
        "cluster.yaml",
    )
    assert target.scratch == Scratch("memory", 20 << 30)
    assert target.page_cache == {"disk": CacheTier("/var/pages", 512 << 20)}
    assert target.capacity == Capacity(8, 1 << 40)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("namspace: x", "namespace"),
        ("scratch: {size: much}", "size"),
        ("scratch: {medium: tape}", "disk, memory"),
        ("pull_policy: Sometimes", "IfNotPresent"),
        ("node_selector: {gpu: true}", "quote it"),
        ("page_cache: {disk: {path: pages, size: 1g}}", "absolute path"),
        ("page_cache: {disk: {path: /pages}}", "size"),
        ("tolerations: {key: a}", "list"),
        ("cpu_request: 0", "1.0"),
        ("overhead: -1", "0.10"),
        ("largest_node: {cores: 4, memory: 16Gi}", "capacity:"),
        ("service_account: Not_A_Name", "lower-case"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_what_to_write(line: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_target(LEAST + line, "cluster.yaml")
    assert "cluster.yaml, line 4" in refused.value.problem
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", "kind: mesos\nnamespace: a\nimage: b", "kind: kubernetes\nimage: b"])
def test_a_file_that_names_no_cluster_is_none(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_target(text, "cluster.yaml")
