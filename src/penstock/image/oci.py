"""The documents of an image by the OCI image specification 1.1: configuration, manifest, index. Pure.

The same input gives the same bytes: keys are sorted, and the caller passes the times.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from penstock.errors import InvalidInput

CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"

LAYOUT_FILE = "oci-layout"
LAYOUT = {"imageLayoutVersion": "1.0.0"}

_NAME = re.compile(
    r"(?P<repository>(?:[a-z0-9][a-z0-9.-]*(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*):(?P<tag>[\w][\w.-]{0,127})"
)


@dataclass(frozen=True)
class Blob:
    """The descriptor of content by its digest; `size` is in bytes."""

    digest: str
    size: int
    media_type: str

    @property
    def path(self) -> str:
        return "blobs/" + self.digest.replace(":", "/")

    def descriptor(self, **more: Any) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **more}


@dataclass(frozen=True)
class Layer:
    blob: Blob
    diff_id: str
    """The digest of the uncompressed layer, which container runtimes verify."""
    history: str


@dataclass(frozen=True)
class Name:
    """The name of an image: `repository` as written, `full` with the default registry where it names none."""

    repository: str
    tag: str

    @property
    def full(self) -> str:
        first = self.repository.split("/")[0]
        if "/" in self.repository and ("." in first or ":" in first or first == "localhost"):
            return f"{self.repository}:{self.tag}"
        return f"docker.io/{self.repository if '/' in self.repository else 'library/' + self.repository}:{self.tag}"


def parse_name(text: str) -> Name:
    """Parse the name of an image. Raises `InvalidInput`."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"“{text[:120]}” cannot be the name of an image",
            why="it is [REGISTRY/]NAME:TAG, in lower case",
            fix="--name registry.example.com/analytics/penstock:1.0",
        )
    return Name(found["repository"], found["tag"])


def document(content: Mapping[str, Any] | Sequence[Any], media_type: str) -> tuple[Blob, bytes]:
    data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return Blob(digest(data), len(data), media_type), data


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def configuration(
    layers: Sequence[Layer], *, architecture: str, created: int, config: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an image's configuration; `created` is in seconds since 1970, `base` that of the base image, or empty."""
    below = base.get("rootfs", {}).get("diff_ids", [])
    at = datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "architecture": architecture,
        "os": "linux",
        "created": at,
        "config": merge_config(base.get("config") or {}, config),
        "rootfs": {"type": "layers", "diff_ids": [*below, *(layer.diff_id for layer in layers)]},
        "history": [
            *base.get("history", []),
            *({"created": at, "created_by": f"penstock image build: {layer.history}"} for layer in layers),
        ],
    }


def merge_config(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the configurations of base and image; `own` takes precedence, also for each variable and label."""
    variables = dict(line.partition("=")[::2] for line in [*(base.get("Env") or []), *own.get("Env", [])])
    labels = {**(base.get("Labels") or {}), **own.get("Labels", {})}
    return {
        **{key: value for key, value in base.items() if key not in ("Cmd", "Healthcheck", "OnBuild")},
        **own,
        "Env": [f"{key}={value}" for key, value in sorted(variables.items())],
        "Labels": labels,
    }


def manifest(config: Blob, layers: Sequence[Blob], annotations: Mapping[str, str]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.descriptor() for layer in layers],
        "annotations": dict(annotations),
    }


def index(manifest_blob: Blob, name: Name, architecture: str) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            manifest_blob.descriptor(
                platform={"architecture": architecture, "os": "linux"},
                annotations={
                    # containerd and podman read the first, skopeo and the specification the second.
                    "io.containerd.image.name": name.full,
                    "org.opencontainers.image.ref.name": name.tag,
                },
            )
        ],
    }


def docker_manifest(config: Blob, layers: Sequence[Blob], name: Name) -> list[dict[str, Any]]:
    """Return the manifest of `docker load` before release 25, which reads no other one; it names the same files."""
    return [
        {
            "Config": config.path,
            "RepoTags": [f"{name.repository}:{name.tag}"],
            "Layers": [layer.path for layer in layers],
        }
    ]
