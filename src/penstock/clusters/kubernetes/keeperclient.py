"""The engine's side of a keeper: through the API server from anywhere, straight to the pod within the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.api import Api
from penstock.clusters.kubernetes.relay import Entrance
from penstock.errors import PenstockError
from penstock.hosts import in_url

_SECONDS = 10.0


class KeeperClient:
    """`token` is asked for when it is first needed. Every method returns None where the keeper cannot be reached."""

    def __init__(self, api: Api, namespace: str, pod: str, token: Callable[[], str | None]) -> None:
        self._api = api
        self._proxy = f"/api/v1/namespaces/{namespace}/pods/{pod}:{places.KEEPER_PORT}/proxy"
        self._ask_token = token
        self._token: str | None = None

    def forget(self) -> None:
        """Ask for the token anew: it is another keeper now."""
        self._token = None

    def status(self, address: str | None) -> Mapping[str, Any] | None:
        answer = self._call("GET", address, "/status")
        found: Mapping[str, Any] | None = None if answer is None else json.loads(answer)
        return found

    def piece(self, address: str | None, name: str, start: int, at_most: int) -> bytes | None:
        return self._call("GET", address, f"/artefacts/{name}", start=str(start), at_most=str(at_most))

    def published(self, address: str | None, name: str) -> bytes | None:
        return self._call("GET", address, f"/published/{name}")

    def pages(self, address: str | None) -> tuple[int, str | None] | None:
        """The port of the driver's loopback that Spark's pages are on, and their key; None while they are opened."""
        answer = self._call("GET", address, "/pages")
        found = {} if answer is None else json.loads(answer)
        return (int(found["port"]), found["key"]) if found.get("port") else None

    def entrance(self, address: str | None, port: int) -> Entrance | None:
        """Of a way to that port of the driver's loopback."""
        access = self._api.access
        try:
            self._token = self._token or self._ask_token()
            bearer = access.token()
        except PenstockError:
            return None
        if self._token is None:
            return None
        headers, path = {places.TOKEN_HEADER: self._token}, f"/tunnel/{port}"
        if access.in_cluster:
            return None if address is None else Entrance(address, places.KEEPER_PORT, None, path, headers)
        server = urlsplit(access.server)
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        where = server.port or (443 if server.scheme == "https" else 80)
        return Entrance(server.hostname or "", where, access.tls, f"{server.path}{self._proxy}{path}", headers)

    def tell(self, address: str | None, what: str) -> bool:
        """`stop`, `kill` or `release`; whether it was heard."""
        return self._call("POST", address, f"/{what}") is not None

    def _call(self, method: str, address: str | None, path: str, **params: str) -> bytes | None:
        try:
            self._token = self._token or self._ask_token()
            if self._token is None:
                return None
            headers = {places.TOKEN_HEADER: self._token}
            if not self._api.access.in_cluster:
                return self._api.call(method, self._proxy + path, headers=headers, params=params, seconds=_SECONDS)
            if address is None:
                return None
            url = f"http://{in_url(address)}:{places.KEEPER_PORT}{path}"
            answer = httpx.request(method, url, headers=headers, params=params, timeout=_SECONDS, trust_env=False)
        except (PenstockError, httpx.HTTPError):
            return None
        return answer.content if answer.is_success else None
