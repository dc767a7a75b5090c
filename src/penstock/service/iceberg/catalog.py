"""Iceberg's REST catalog behind the service: who may see and change which namespace, and the requests passed on.

A namespace belongs to the instance that created it, as its property `penstock.instance` records: callers of other
instances do not learn of it. One without an owner, as Spark's applications create them, is for every caller to read,
and for those with rights on all instances to change. These are the rights of this protocol's clients; applications
open the same metastore themselves, with the rights of whoever may submit them.
"""

from __future__ import annotations

import enum
import json
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from penstock.catalog.tables import OWNER
from penstock.engine.tokens import Caller, Scope
from penstock.errors import (
    CatalogError,
    Forbidden,
    InvalidInput,
    NotFound,
    PenstockError,
    QuotaExceeded,
    Unauthenticated,
)
from penstock.service.auth import READING

_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")
_NO_NAMES = frozenset({"", ".", ".."})
_QUERY = ("purgeRequested", "snapshots")
_DELEGATED, _DELEGABLE = "delegated", "penstock.delegable"
"""The parameter that asks whether a table's location holds its files and nobody else's; the setting that says so."""
_KEY_HEADER = "X-Penstock-Key"
_CONFIG = ("config",)
# A purge deletes a table's files one by one before it is answered.
_TIMEOUT = httpx.Timeout(600.0, connect=5.0, pool=5.0)
# No connection is kept: one that the catalog closed meanwhile would fail like a commit of unknown outcome.
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=0)
_ATTEMPTS = 5
"""The times that a request is sent, of which all but the last were lost before they were answered."""
_log = logging.getLogger(__name__)


class Action(enum.Enum):
    LIST = "list"
    READ = "read"
    CREATE = "create"
    CHANGE = "change"


@dataclass(frozen=True)
class Request:
    """A request of the protocol. `path` has the decoded segments after the prefix, `query` the first values."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    body: bytes
    delegated: bool = False
    """True where the client asks for credentials with which it reads or writes the files of a table."""

    @property
    def reading(self) -> bool:
        return self.method in READING

    def json(self) -> dict[str, Any]:
        """Return the body. Raises `InvalidInput` where it is not a JSON object."""
        try:
            read = json.loads(self.body)
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise InvalidInput("The body is not a JSON object", fix="send what Iceberg's REST protocol describes")
        return read


@dataclass(frozen=True)
class Intent:
    """The effect that a request would have, and the namespaces concerned, by their names in lower case."""

    action: Action
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""


def intent_of(request: Request) -> Intent:
    """Return what the request would do. Raises `NotFound` for one outside the protocol, and `InvalidInput`.

    A list of namespaces concerns its parent, if the request names one.
    """
    # The HTTP client resolves dots: the path that the catalog gets would not be the one whose rights are decided here.
    if not _NO_NAMES.isdisjoint(request.path):
        raise _not_offered(request)
    match request.path:
        case ("namespaces",):
            if not request.reading:
                return Intent(Action.CREATE, (_level(request.json().get("namespace")),))
            parent = request.query.get("parent")
            return Intent(Action.LIST, (_named(parent),) if parent else ())
        case ("namespaces", namespace, "tables", _, "metrics") if request.method == "POST":
            # A client's report on its scan changes nothing.
            return Intent(Action.READ, (_named(namespace),))
        case ("namespaces", namespace, *_):
            return Intent(Action.READ if request.reading else Action.CHANGE, (_named(namespace),))
        case ("tables" | "views", "rename"):
            body = request.json()
            ends = (body.get("source"), body.get("destination"))
            return Intent(
                Action.CHANGE, tuple(_level(end.get("namespace") if isinstance(end, dict) else None) for end in ends)
            )
    raise _not_offered(request)


def _not_offered(request: Request) -> NotFound:
    return NotFound(f"This catalog does not offer {request.method} {'/'.join(request.path)[:200]}")


def _level(value: object) -> str:
    """Return the name in a body's list of levels, of which the metastore has one."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return _named(value[0])
    raise InvalidInput("The body names no namespace of one level", why="the metastore's databases have no levels")


def _named(name: str) -> str:
    """Return the name as the metastore stores it, which ignores case; any other text could mean another's database."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"“{name[:200]}” is not the name of a namespace",
            why="the metastore's databases have names of letters, digits and underscores",
        )
    return name.lower()


@dataclass(frozen=True)
class Rights:
    """The rights of a caller who works in one instance. `owners` has the instances of owned namespaces."""

    caller: Caller
    instance: str
    owners: Mapping[str, str]

    def sees(self, namespace: str) -> bool:
        owner = self.owners.get(namespace)
        return owner is None or self.caller.sees(owner)

    def require(self, intent: Intent) -> None:
        """Raise `NotFound` for a namespace that the caller does not see, `Forbidden` where a right is missing."""
        if intent.action is Action.CREATE:
            self.caller.require(Scope.SUBMIT, self.instance)
            return
        for namespace in intent.namespaces:
            if not self.sees(namespace):
                raise NoSuchNamespace(namespace)
            if intent.action is Action.CHANGE:
                self._require_change(namespace)

    def changes(self, namespace: str) -> bool:
        """Return whether the caller may change the namespace and what is in it."""
        owner = self.owners.get(namespace)
        return self.caller.may(Scope.SUBMIT) if owner is None else self.caller.may(Scope.SUBMIT, owner)

    def _require_change(self, namespace: str) -> None:
        owner = self.owners.get(namespace)
        if owner is not None:
            self.caller.require(Scope.SUBMIT, owner)
        elif not self.changes(namespace):
            raise Forbidden(
                f"The namespace {namespace} belongs to no instance, and your token has rights on some alone",
                why="everybody reads it, so that not everybody may change it",
                fix="create a namespace of your own instance, or ask an administrator for the scope submit on all",
            )


class NoSuchNamespace(NotFound):
    """The caller sees no such namespace. The sentence is Iceberg's own, as for one that does not exist."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"Namespace does not exist: {namespace}")


def with_owner(request: Request, instance: str) -> bytes:
    """Return the body of a request that creates a namespace, or changes its properties, with an owner of ours."""
    body = request.json()
    removals = body.get("removals")
    if request.path == ("namespaces",):
        body["properties"] = {**_properties(body, "properties"), OWNER: instance}
    elif OWNER in _properties(body, "updates") or (isinstance(removals, list) and OWNER in removals):
        raise Forbidden(
            f"The property {OWNER} cannot be changed",
            why="it says which instance's the namespace is",
            fix="create a namespace of the other instance, and rename the tables into it",
        )
    return json.dumps(body).encode()


def _properties(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = body.get(name) or {}
    if not isinstance(found, dict):
        raise InvalidInput(f"“{name}” is not an object")
    return found


def snapshot_ids(request: Request) -> frozenset[int]:
    """Return the ids of the snapshots that a commit to a table adds; none where the request is no such commit."""
    match (request.method, request.path):
        case ("POST", ("namespaces", _, "tables", _)):
            updates = request.json().get("updates")
        case _:
            return frozenset()
    if not isinstance(updates, list):
        return frozenset()
    found = [update.get("snapshot") for update in updates if isinstance(update, dict)]
    ids = (snapshot.get("snapshot-id") for snapshot in found if isinstance(snapshot, dict))
    return frozenset(one for one in ids if isinstance(one, int))


def opens_table(request: Request) -> bool:
    """Return whether the answer is a table, with which a client goes to the store."""
    match (request.method, request.path):
        case ("GET", ("namespaces", _, "tables", _)) | ("POST", ("namespaces", _, "tables")):
            return True
    return False


def error_answer(status: int, kind: str, message: str) -> Answer:
    """An error in the protocol's form; `kind` is the name of Iceberg's exception."""
    return Answer(status, json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode())


def refusal(error: PenstockError) -> Answer:
    """Return an error of Penstock's as the protocol's clients understand it.

    The catalog has changed nothing, so that no status is one by which a client takes a commit's outcome for unknown.
    """
    if isinstance(error, NoSuchNamespace):
        return error_answer(404, "NoSuchNamespaceException", error.problem)
    for kind, status, name in (
        (Unauthenticated, 401, "NotAuthorizedException"),
        (Forbidden, 403, "ForbiddenException"),
        (NotFound, 404, "NotFoundException"),
        (InvalidInput, 400, "BadRequestException"),
        (QuotaExceeded, 429, "TooManyRequestsException"),
    ):
        if isinstance(error, kind):
            return error_answer(status, name, str(error))
    return error_answer(503, "ServiceUnavailableException", str(error))


class Catalog(Protocol):
    """The process that answers; see `engine.catalog_service.IcebergCatalog`."""

    key: str

    def url(self, lost: str | None = None, *, refuses: bool = False) -> str:
        """Return its address.

        It is that of another process where the one at `lost`, which broke a connection off, has ended or `refuses`
        connections.
        """

    def close(self) -> None:
        """End the process."""


class Vendor(Protocol):
    """The issuer of credentials for the files of tables; see `credentials.CredentialVendor`."""

    def configuration(self, location: str, *, writing: bool, user: str) -> Mapping[str, str] | None:
        """Return a client's settings, which open the files below the location; None where none can be limited so."""


class IcebergFront:
    """Passes the requests on that their callers may make. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        owners: Callable[[], Mapping[str, str]],
        vendor: Vendor,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._catalog = catalog
        self._owners = owners
        self._vendor = vendor
        # The environment's proxies are not for loopback, and TLS is not used: no authority is loaded.
        no_authority = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx.Client(
            timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, verify=no_authority, transport=transport
        )

    def configuration(self, instance: str) -> Answer:
        """Return what a client asks for first: what is offered, and the prefix of its further requests."""
        answer = self._send(Request("GET", _CONFIG, {}, b""))
        body = json.loads(answer.body)
        body["overrides"] = {**body.get("overrides", {}), "prefix": instance}
        return Answer(answer.status, json.dumps(body).encode())

    def answer(self, caller: Caller, instance: str, request: Request) -> Answer:
        """Raises as `Rights.require` and `intent_of` do, and `CatalogError` where the catalog does not start."""
        intent = intent_of(request)
        rights = Rights(caller, instance, self._owners())
        rights.require(intent)
        if intent.action is Action.LIST and intent.namespaces:
            return self._children(request, intent.namespaces[0])
        if intent.action is Action.CREATE or request.path[2:] == ("properties",):
            request = replace(request, body=with_owner(request, instance))
        elif request.path[0] != "namespaces":
            # As it was read here: a body with a name given twice is read by others in other ways.
            request = replace(request, body=json.dumps(request.json()).encode())
        if request.delegated and not opens_table(request):
            request = replace(request, delegated=False)
        answer = self._send(request)
        if answer.status != 200:
            return answer
        if request.delegated:
            writing = rights.changes(intent.namespaces[0])
            return self._with_credentials(answer, writing=writing, user=f"token-{caller.token_id}")
        return _seen_by(rights, answer) if intent.action is Action.LIST else answer

    def _children(self, request: Request, parent: str) -> Answer:
        """Return the namespaces within the parent: none, since the metastore's have one level; 404 without a parent."""
        found = self._send(Request(request.method, ("namespaces", parent), {}, b""))
        return Answer(200, json.dumps({"namespaces": []}).encode()) if found.status == 200 else found

    def _with_credentials(self, answer: Answer, *, writing: bool, user: str) -> Answer:
        """Add credentials for the table's files, where its location holds them all and nobody else's."""
        body = json.loads(answer.body)
        if body.get("config", {}).pop(_DELEGABLE, None) is None:
            return answer
        location = str(body["metadata"]["location"])
        try:
            given = self._vendor.configuration(location, writing=writing, user=user)
        except PenstockError as error:
            # The table may have been created by this request: an error would say that it was not.
            _log.warning("a client of Iceberg's catalog gets no credentials for %s: %s", location, error)
            given = None
        if given is not None:
            body["config"].update(given)
            body["storage-credentials"] = [{"prefix": location, "config": given}]
        return Answer(answer.status, json.dumps(body).encode())

    def close(self) -> None:
        self._client.close()
        self._catalog.close()

    def _send(self, request: Request) -> Answer:
        """Send the request, again where its connection is lost, until its outcome is known.

        A commit whose answer was lost is looked up first: a table that has the commit's snapshots shows that it
        succeeded. Otherwise it is sent again, which cannot apply it twice, since it names the state that it follows. A
        conflict may be with itself, also where the client has sent it again, as DuckDB does. Of other changes nothing
        shows what became of them.

        A process that is slow to answer lives, and works for others: it is neither replaced nor asked again. Raises
        `CatalogError` for a request that no process took, and for one that only reads and had no answer in time.
        """
        added = snapshot_ids(request)
        lost: str | None = None
        refuses = False
        sent: httpx.HTTPError | None = None
        for _ in range(_ATTEMPTS):
            try:
                url = self._catalog.url(lost, refuses=refuses)
            except PenstockError:
                if sent is None:
                    raise
                continue
            lost, refuses = None, False
            try:
                if sent and added and (made := self._made(url, request, added)):
                    return made
                answer = self._once(url, request)
                if added and answer.status == 409 and (made := self._made(url, request, added)):
                    return made
            except httpx.ConnectError:
                lost, refuses = url, True
            except (httpx.ConnectTimeout, httpx.PoolTimeout):
                continue
            except httpx.TimeoutException as error:
                sent = error
                break
            except httpx.HTTPError as error:
                lost, sent = url, error
                if not request.reading and not added:
                    break
            else:
                return answer
        if sent is None or request.reading:
            raise CatalogError(
                "Iceberg's catalog does not answer",
                why="its process ends again and again, or is busy with other requests",
                fix="try again in a moment, and read iceberg.log in the state directory",
            )
        return _unknown(sent)

    def _made(self, url: str, request: Request, snapshots: frozenset[int]) -> Answer | None:
        """Return the table to which the commit's snapshots were added, which answers it; None where it has them not."""
        found = self._once(url, Request("GET", request.path, {}, b""))
        if found.status != 200:
            return None
        there = {one["snapshot-id"] for one in json.loads(found.body)["metadata"].get("snapshots", ())}
        return found if snapshots <= there else None

    def _once(self, url: str, request: Request) -> Answer:
        prefix = () if request.path == _CONFIG else ("lake",)
        path = "/".join(quote(part, safe="") for part in ("v1", *prefix, *request.path))
        query = {name: request.query[name] for name in _QUERY if name in request.query}
        if request.delegated:
            query[_DELEGATED] = "true"
        headers = {_KEY_HEADER: self._catalog.key, "Content-Type": "application/json"}
        answer = self._client.request(
            request.method, f"{url}/{path}", params=query, content=request.body, headers=headers
        )
        return Answer(answer.status_code, answer.content)


def _unknown(error: httpx.HTTPError) -> Answer:
    return error_answer(
        504,
        "CommitStateUnknownException",
        f"The catalog's answer was lost ({type(error).__name__}): whether the change was made is not known. "
        "Look before you repeat it",
    )


def _seen_by(rights: Rights, answer: Answer) -> Answer:
    body = json.loads(answer.body)
    body["namespaces"] = [levels for levels in body["namespaces"] if rights.sees(".".join(levels).lower())]
    return Answer(answer.status, json.dumps(body).encode())
