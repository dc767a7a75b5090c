"""An image's documents are valid by the OCI specification's own schemas."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from penstock.errors import InvalidInput
from penstock.image import contents, oci
from tests.unit.image.ocischemas import validator

LAYER = oci.Layer(oci.Blob("sha256:" + "a" * 64, 10, oci.LAYER), "sha256:" + "b" * 64, "spark")
SETTINGS = contents.settings(contents.Base("/usr/lib/jvm/java-17", "3.11"), "1.2.3")


def configuration(**base: Any) -> dict[str, Any]:
    return oci.configuration([LAYER], architecture="amd64", created=1767225600, config=SETTINGS, base=base)


def test_the_specification_s_schemas_take_every_document() -> None:
    config, _ = oci.document(configuration(), oci.CONFIG)
    manifest = oci.manifest(config, [LAYER.blob], contents.LABELS)
    blob, _ = oci.document(manifest, oci.MANIFEST)
    validator("config").validate(configuration())
    validator("image-manifest").validate(manifest)
    validator("image-index").validate(oci.index(blob, oci.parse_name("penstock:1"), "amd64"))
    validator("image-layout").validate(oci.LAYOUT)


def test_the_schemas_refuse_what_is_wrong() -> None:
    broken = oci.manifest(oci.Blob("no-digest", 1, oci.CONFIG), [LAYER.blob], {})
    with pytest.raises(jsonschema_rs.ValidationError):
        validator("image-manifest").validate(broken)


def test_containers_run_as_a_number_that_is_not_root_s_and_in_its_group() -> None:
    user, group = configuration()["config"]["User"].split(":")
    assert int(user) > 0
    assert group == "0"


def test_the_configuration_names_each_layer_s_content_and_where_it_came_from() -> None:
    found = configuration()
    assert found["rootfs"]["diff_ids"] == [LAYER.diff_id]
    assert found["created"] == "2026-01-01T00:00:00Z"
    assert found["history"][0]["created_by"] == "penstock image build: spark"


def test_a_base_s_layers_variables_and_labels_stay_below_ours() -> None:
    base = {
        "config": {"Env": ["PATH=/other", "TZ=UTC"], "Labels": {"vendor": "x"}, "Cmd": ["bash"], "User": "0"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + "c" * 64]},
        "history": [{"created_by": "base"}],
    }
    found = configuration(**base)
    variables = dict(line.split("=", 1) for line in found["config"]["Env"])
    assert found["rootfs"]["diff_ids"] == ["sha256:" + "c" * 64, LAYER.diff_id]
    assert variables["TZ"] == "UTC"
    assert variables["PATH"].startswith("/opt/penstock/bin:")
    assert found["config"]["Labels"]["vendor"] == "x"
    assert found["config"]["User"] == "1000:0"
    assert found["config"]["Cmd"] == ["penstock", "--help"]


def test_a_document_s_digest_does_not_depend_on_the_order_of_its_keys() -> None:
    assert oci.document({"a": 1, "b": 2}, "x") == oci.document({"b": 2, "a": 1}, "x")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("penstock:1", "docker.io/library/penstock:1"),
        ("analytics/penstock:1.0-x", "docker.io/analytics/penstock:1.0-x"),
        ("registry.example.com:5000/a/penstock:1", "registry.example.com:5000/a/penstock:1"),
        ("localhost/penstock:1", "localhost/penstock:1"),
    ],
)
def test_a_name_means_what_it_means_to_container_engines(given: str, meant: str) -> None:
    assert oci.parse_name(given).full == meant


@pytest.mark.parametrize("text", ["penstock", "Penstock:1", "penstock:", "a b:1", "penstock:1\n", "x/:1", ":1"])
def test_a_name_without_a_tag_or_with_letters_no_registry_takes_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be the name of an image"):
        oci.parse_name(text)


def test_older_docker_reads_the_same_files() -> None:
    config, _ = oci.document(configuration(), oci.CONFIG)
    found = json.loads(oci.document(oci.docker_manifest(config, [LAYER.blob], oci.parse_name("penstock:1")), "")[1])
    assert found == [{"Config": config.path, "RepoTags": ["penstock:1"], "Layers": [LAYER.blob.path]}]
