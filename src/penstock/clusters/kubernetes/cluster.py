"""The pods of one application: their current state, and the observation that follows from it."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from penstock.clusters import driver_reports
from penstock.clusters.backend import Observation, Phase, WebInterface
from penstock.clusters.kubernetes import layout, pod_status, resources
from penstock.clusters.kubernetes.client import Api
from penstock.clusters.kubernetes.informer import PodWatch
from penstock.clusters.kubernetes.sidecar_client import Relay, SidecarClient
from penstock.clusters.kubernetes.target import Target
from penstock.errors import NotFound, PenstockError
from penstock.model import Reason

Json = Mapping[str, Any]

_ASK_SECONDS = 1.0
_QUOTA_SECONDS = 5.0


class Cluster:
    """The pods of one application, followed by a watch until `close`. Every method raises the errors of `Api`."""

    def __init__(self, api: Api, namespace: str, application_id: str, target: Target) -> None:
        self.name = layout.object_name(application_id)
        self.pod_path = f"/api/v1/namespaces/{namespace}/pods/{self.name}"
        self.secret_path = f"/api/v1/namespaces/{namespace}/secrets/{self.name}"
        self._events_path = f"/api/v1/namespaces/{namespace}/events"
        self._api = api
        self._namespace = namespace
        self._target = target
        self._watch = PodWatch(api, namespace, f"{layout.APPLICATION_LABEL}={application_id}")
        self.sidecar = SidecarClient(api, namespace, self.name, self._token)
        self._status: Mapping[str, Any] | None = None
        self._asked_at = -_ASK_SECONDS
        self._shortage: str | None = None
        self._looked_at = time.monotonic()
        self._lost: dict[str, str] = {}
        self._uid: str | None = None
        self._pages: dict[int, Relay] = {}
        self._opening = threading.Lock()

    def close(self) -> None:
        self._watch.close()
        with self._opening:
            for relay in self._pages.values():
                relay.close()
            self._pages.clear()

    def relay_to(self, port: int) -> Relay:
        """Open a relay to that port of the driver's loopback. The caller closes it."""
        return Relay(lambda: self.sidecar.entrance(self.address(), port))

    def pages(self) -> WebInterface | None:
        """Return the address of Spark's web UI. The relay to it stays open until `close`."""
        if (found := self.sidecar.pages(self.address())) is None:
            return None
        port, key = found
        with self._opening:
            if port not in self._pages:
                self._pages[port] = self.relay_to(port)
            return WebInterface("127.0.0.1", self._pages[port].port, key=key)

    def driver(self) -> Json | None:
        if (known := self._watch.pods().get(self.name)) is None:
            # A watch lags a little behind, and the absence of the pod has to be certain.
            try:
                known = self._api.get(self.pod_path)
            except NotFound:
                return None
        if (uid := known["metadata"].get("uid")) != self._uid:
            # The pod of a new attempt: the state of the previous one does not apply.
            self._uid, self._status, self._lost = uid, None, {}
            self.sidecar.forget()
        return known

    def executors(self) -> list[Json]:
        return [pod for name, pod in self._watch.pods().items() if name != self.name]

    def address(self) -> str | None:
        """Return the address of the sidecar; None while it does not run, when its port may belong to submitted code."""
        pod = self.driver()
        if pod is None or not pod_status.sidecar_runs(pod):
            return None
        found = pod.get("status", {}).get("podIP")
        return None if found is None else str(found)

    def running(self) -> bool:
        """Return whether the driver's container runs."""
        pod = self.driver()
        return pod is not None and pod_status.driver_runs(pod)

    def secret(self) -> Mapping[str, bytes]:
        try:
            found = self._api.get(self.secret_path).get("data") or {}
        except NotFound:
            return {}
        return {name: base64.b64decode(value) for name, value in found.items()}

    def observe(self) -> Observation:
        pod, executors = self.driver(), self.executors()
        for executor in executors:
            if why := pod_status.executor_failure(executor):
                self._lost[str(executor["metadata"]["name"])] = why
        timeout = self._target.start_timeout_seconds
        seen = pod_status.driver_state(pod, at=datetime.now(timezone.utc), timeout_seconds=timeout)
        if seen.phase is Phase.STARTING and seen.reason is None and pod is not None:
            events = self._events(pod)
            seen = pod_status.driver_state(pod, at=datetime.now(timezone.utc), timeout_seconds=timeout, events=events)
        status = self._ask() if seen.phase in (Phase.RUNNING, Phase.ENDED) else None
        progress = driver_reports.progress((status or {}).get("progress"))
        phase = Phase.STARTING if seen.phase is Phase.RUNNING and progress is None else seen.phase
        return Observation(
            phase,
            exit_code=seen.exit_code,
            spark_application_id=(progress or {}).get("application_id"),
            progress=progress,
            detail=seen.reason.message if seen.reason else "",
            lost_executors=len(self._lost),
            reason=seen.reason or (self._why_executors_wait(pod, executors) if phase is not Phase.ENDED else None),
            # A driver that has reported progress may finish without its sidecar.
            permanent=seen.permanent and phase is Phase.STARTING,
        )

    def _why_executors_wait(self, driver: Json | None, executors: Sequence[Json]) -> Reason | None:
        if reason := pod_status.pending_reason(executors):
            return reason
        if driver is None or (missing := pod_status.missing_executors(driver, executors)) is None:
            return None
        if time.monotonic() - self._looked_at >= _QUOTA_SECONDS:
            self._looked_at = time.monotonic()
            with contextlib.suppress(PenstockError):
                self._shortage = resources.shortage(resources.list_quotas(self._api, self._namespace), missing.each)
        return None if self._shortage is None else pod_status.quota_reason(missing.number, self._shortage)

    def _ask(self) -> Mapping[str, Any] | None:
        if time.monotonic() - self._asked_at >= _ASK_SECONDS:
            self._asked_at = time.monotonic()
            self._status = self.sidecar.status(self.address()) or self._status
        return self._status

    def _events(self, pod: Json) -> list[Mapping[str, Any]]:
        """Return the events of the pod, not of an earlier one of its name; none where listing them is forbidden."""
        if time.monotonic() - self._asked_at < _ASK_SECONDS:
            return []
        self._asked_at = time.monotonic()
        with contextlib.suppress(PenstockError):
            chosen = f"involvedObject.name={self.name},involvedObject.uid={pod['metadata'].get('uid', '')}"
            return list(self._api.get(self._events_path, fieldSelector=chosen).get("items") or [])
        return []

    def _token(self) -> str | None:
        content = self.secret().get(layout.TOKEN)
        return None if content is None else content.decode("ascii")
