"""An in-memory Kubernetes with the functions that a backend uses: objects by path, a watch of pods, and ownership."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import Access, RequestRejected
from penstock.errors import NotFound

Json = dict[str, Any]


class FakeKubernetes:
    """A stand-in for `Api`.

    `status` is the sidecar's status, None while it does not answer; `answers` are its other answers, by path.
    """

    def __init__(self) -> None:
        self.access = Access("https://there", None, lambda: None)
        self.objects: dict[str, Json] = {}
        self.made: list[str] = []
        self.status: Json | None = None
        self.answers: dict[str, bytes] = {}
        self.tokens: list[str] = []
        self._numbers = itertools.count(1)
        self._changes: list[Json] = []
        self._changed = threading.Condition()

    def create(self, path: str, body: Json) -> Json:
        if path.startswith("/apis/authorization.k8s.io"):
            return {"status": {"allowed": True}}
        whole = f"{path}/{body['metadata']['name']}"
        if whole in self.objects:
            raise RequestRejected(409, "Kubernetes refused", why="already exists", reason="AlreadyExists")
        self.made.append(body["kind"])
        metadata = {
            **body["metadata"],
            "uid": f"uid-{next(self._numbers)}",
            "creationTimestamp": "2026-11-22T05:00:00Z",
        }
        self._put("ADDED", whole, {**body, "metadata": metadata, "status": body.get("status", {"phase": "Pending"})})
        return self.objects[whole]

    def get(self, path: str, **params: str) -> Json:
        if path in self.objects:
            return self.objects[path]
        if path.rpartition("/")[2] in ("pods", "nodes", "resourcequotas", "limitranges", "events"):
            items = [it for it in self._below(path) if _selected(it, params.get("labelSelector", ""))]
            return {"items": items, "metadata": {"resourceVersion": str(len(self._changes))}}
        raise NotFound("Kubernetes has no such object", why=path)

    def merge(self, path: str, body: Json) -> Json:
        self.get(path)["data"].update(body["data"])
        return self.objects[path]

    def delete(self, path: str, **params: Any) -> None:
        found = [path] if path in self.objects else []
        if selector := params.get("labelSelector"):
            found = [
                one for one in self.objects if one.startswith(f"{path}/") and _selected(self.objects[one], selector)
            ]
        for one in found:
            gone = self.objects[one]
            self._put("DELETED", one, gone)
            owned = [
                other
                for other, it in self.objects.items()
                if any(owner["uid"] == gone["metadata"]["uid"] for owner in it["metadata"].get("ownerReferences") or [])
            ]
            for other in owned:
                self.delete(other)

    def watch(self, _: str, version: str, **params: str) -> Iterator[Json]:
        at = int(version)
        while news := self._news(at):
            at += len(news)
            yield from (one for one in news if _selected(one["object"], params.get("labelSelector", "")))

    def call(self, method: str, path: str, *, headers: dict[str, str], **_: Any) -> bytes:
        """Answer a request to a sidecar through the API server's proxy."""
        self.tokens.append(headers[layout.TOKEN_HEADER])
        asked = path.partition("/proxy")[2]
        if asked == "/status" and self.status is not None:
            return json.dumps(self.status).encode()
        if asked not in self.answers:
            raise RequestRejected(503, "Kubernetes refused", why=f"{method} {path}")
        return self.answers[asked]

    def become(self, path: str, **status: Any) -> None:
        """Replace the pod's status, as its kubelet does."""
        self._put("MODIFIED", path, {**self.objects[path], "status": status})

    def _news(self, at: int) -> list[Json]:
        """Return the changes since then; none after half a second: the server ends a watch now and then."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._changes) > at, 0.5)
            return self._changes[at:]

    def _below(self, path: str) -> list[Json]:
        return [it for name, it in self.objects.items() if name.rpartition("/")[0] == path]

    def _put(self, kind: str, path: str, found: Json) -> None:
        with self._changed:
            found["metadata"] = {**found["metadata"], "resourceVersion": str(len(self._changes) + 1)}
            if kind == "DELETED":
                del self.objects[path]
            else:
                self.objects[path] = found
            if found["kind"] == "Pod":
                self._changes.append({"type": kind, "object": found})
            self._changed.notify_all()


def _selected(found: Json, selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    return all(
        labels.get(name) == value for name, _, value in (one.partition("=") for one in selector.split(",") if one)
    )
