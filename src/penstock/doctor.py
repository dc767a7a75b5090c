"""Diagnostics of this installation: findings and their consequences. They start and change nothing."""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import socket
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

from penstock.catalog.database import OWN_LOGIN_FIX, RECORDS, SHARED_LOGIN, Database
from penstock.client.connection import CA_FILE_VARIABLE
from penstock.clusters import choice
from penstock.engine.engine import Engine
from penstock.engine.policy import admission
from penstock.engine.repository import schema
from penstock.engine.repository.migrations import HEAD
from penstock.engine.tokens import Scope, Token, TokenStore, first_token_file
from penstock.engine.webhooks import KEY_FILE, NETWORKS_VARIABLE, AllowedNetworks
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.checks.verdicts import Outcome, Row, Verdict, require_reachable
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import CORES_PER_CORE, Capacity, State, promised
from penstock.prices import Pricing
from penstock.runtime import jvm
from penstock.units import GIB, gibibytes

_LEAST_FREE_BYTES = 2 * GIB
_FEW_FREE_BYTES = 10 * GIB
_FEW_OPEN_FILES = 4096
_SOON = timedelta(days=14)
_EVERYBODY_ELSE = stat.S_IRWXG | stat.S_IRWXO


def failed(error: PenstockError) -> Verdict:
    """The failed check for an error that any command would report."""
    finding = f"{error.problem}: {error.why}" if error.why else error.problem
    return Verdict(Outcome.FAILED, finding, error.fix)


def without_costs(error: PenstockError) -> Verdict:
    """The check for an unreadable price file, which does not prevent applications."""
    return Verdict(
        Outcome.LIMITED,
        f"{error.problem}: {error.why}",
        f"applications have no costs until this is corrected: {error.fix}",
    )


def skipped(why: str) -> Verdict:
    return Verdict(Outcome.SKIPPED, why, "")


def room(capacity: Capacity) -> Verdict:
    """The number of applications of the default size that fit at once."""
    usual = admission.usual_size(capacity)
    wanted = promised(usual)
    seen = f"{capacity.cores} cores, {gibibytes(capacity.memory_bytes)} for applications"
    if refusal := admission.too_large(usual, capacity):
        return Verdict(Outcome.FAILED, seen, f"an application of the default size cannot start: {refusal.message}")
    if waits := admission.waits_for(usual, capacity):
        return Verdict(Outcome.LIMITED, seen, f"an application of the default size must wait: {waits.message}")
    at_once = min(
        capacity.memory_bytes // wanted.memory_bytes,
        int(capacity.cores * CORES_PER_CORE) // wanted.cores,
    )
    return Verdict(Outcome.OK, seen, f"{at_once} applications of the default size fit at once; others wait")


def disk(free_bytes: int, directory: Path) -> Verdict:
    seen = f"{gibibytes(free_bytes)} free for {directory}"
    if free_bytes < _LEAST_FREE_BYTES:
        return Verdict(
            Outcome.FAILED, seen, "there is no room for shuffles and logs: free space, or move PENSTOCK_HOME"
        )
    if free_bytes < _FEW_FREE_BYTES:
        return Verdict(Outcome.LIMITED, seen, "a large shuffle may fill the disk: free space, or move PENSTOCK_HOME")
    return Verdict(Outcome.OK, seen, "scratch, logs and records are stored there")


def open_files(limit: int) -> Verdict:
    if limit < _FEW_OPEN_FILES:
        return Verdict(
            Outcome.LIMITED,
            f"at most {limit}",
            f"clients may be refused and shuffles fail: ulimit -n {_FEW_OPEN_FILES}",
        )
    return Verdict(Outcome.OK, f"at most {limit}", "enough for clients and shuffles")


def private(modes: Mapping[Path, int]) -> Verdict:
    """The check of file modes: `modes` are those of existing files and directories with secrets."""
    if open_to_others := sorted(path for path, mode in modes.items() if mode & _EVERYBODY_ELSE):
        paths = " ".join(f"'{path}'" for path in open_to_others)
        return Verdict(Outcome.FAILED, f"other users can read {len(open_to_others)} of them", f"chmod go= {paths}")
    seen = f"{len(modes)} files and directories, all private" if modes else "none yet"
    return Verdict(Outcome.OK, seen, "credentials and tokens are stored there")


def records_row(version: str | None, head: str) -> Verdict:
    """The check of the records' schema version against this release."""
    if version is None:
        return Verdict(Outcome.OK, "none yet", "the first application creates them")
    if version == head:
        return Verdict(Outcome.OK, f"version {version}", "current")
    if version < head:
        return Verdict(
            Outcome.LIMITED, f"version {version}", f"the next command migrates them to {head}: back them up first"
        )
    return Verdict(
        Outcome.FAILED, f"version {version}, from a newer Penstock", f"install that release; this one supports {head}"
    )


def attended(left_alone: int, waiting: int, *, dispatched: bool) -> Verdict:
    """The check of supervision.

    `left_alone` ones have no supervisor, `waiting` ones wait for a dispatcher, `dispatched` is true if one runs.
    """
    if waiting and not dispatched:
        return Verdict(Outcome.LIMITED, f"{waiting} wait, and no service starts them", "start one: penstock serve")
    if left_alone:
        return Verdict(
            Outcome.LIMITED, f"{left_alone} without a supervisor", "a service adopts them; penstock down stops them"
        )
    return Verdict(Outcome.OK, "all supervised", "lost supervisors are detected")


def tokens(known: Sequence[Token], at: datetime) -> Verdict:
    if not known:
        return Verdict(Outcome.OK, "none", "the first penstock serve creates an administrator's")
    valid = [token for token in known if token.expires_at is None or token.expires_at > at]
    if not valid:
        return Verdict(Outcome.FAILED, f"all {len(known)} have expired", "penstock token create NAME")
    soon = [token for token in valid if token.expires_at is not None and token.expires_at - at < _SOON]
    if soon:
        names = ", ".join(token.name for token in soon)
        return Verdict(Outcome.LIMITED, f"{len(valid)} valid; expiring soon: {names}", "penstock token rotate ID")
    lasting = sum(
        token.expires_at is None and any(scope is Scope.ADMINISTER for scope in token.grants.values())
        for token in valid
    )
    finding = f"{len(valid)} valid" + (f", {lasting} administrator's without expiry" if lasting else "")
    return Verdict(Outcome.OK, finding, "the service accepts them")


def certificate(not_after: datetime, at: datetime) -> Verdict:
    left = not_after - at
    seen = f"valid until {not_after:%Y-%m-%d}"
    if left <= timedelta():
        return Verdict(Outcome.FAILED, seen, "clients refuse it: renew it and restart the service")
    if left < _SOON:
        return Verdict(Outcome.LIMITED, seen, "renew it and restart the service")
    return Verdict(Outcome.OK, seen, "the service uses it")


_PATIENCE_SECONDS = 5.0
_MOST_OF_AN_ANSWER = 64 << 10


class Examination:
    """All checks. `url` is the address of this home's service."""

    def __init__(self, home: Home, url: str) -> None:
        self._home = home
        self._url = url
        self._database = Database(home)

    def rows(self) -> Iterator[Row]:
        """Yield the checks one by one. A check that raises an error is a failed row, never an exception."""
        yield _row("Java", self._java)
        yield _row("jars", self._jars)
        yield _row("room", lambda: room(choice.capacity(self._home)))
        yield _row("disk", self._disk)
        yield _row("open files", lambda: open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        yield _row("secrets", self._secrets)
        yield _row("prices", self._prices)
        yield _row("webhooks", self._webhooks)
        yield _row("database", self._database_answers)
        yield from self._in_records()
        for lake in Lakes(self._home).all():
            yield _row(f"lake {lake.name}", functools.partial(self._lake, lake))
        yield _row("service", self._service)
        if self._url.startswith("https://"):
            yield _row("certificate", self._certificate)

    def _java(self) -> Verdict:
        java = jvm.find_java()
        return Verdict(Outcome.OK, f"{java.version} in {java.home}", "Spark runs with it")

    def _jars(self) -> Verdict:
        return Verdict(Outcome.OK, f"{len(jvm.class_path())} of Spark and Penstock", "every cluster uses them")

    def _disk(self) -> Verdict:
        existing = next(path for path in (self._home.root, *self._home.root.parents) if path.exists())
        return disk(shutil.disk_usage(existing).free, self._home.root)

    def _secrets(self) -> Verdict:
        places = (
            self._home.root,
            CredentialsFile(self._home).path,
            first_token_file(self._home),
            self._home.root / KEY_FILE,
        )
        return private({path: path.stat().st_mode for path in places if path.exists()})

    def _prices(self) -> Verdict:
        try:
            prices = Pricing(self._home).prices()
        except PenstockError as error:
            return without_costs(error)
        return Verdict(Outcome.OK, f"in {prices.currency}, of {prices.date}", "each application shows its cost")

    def _webhooks(self) -> Verdict:
        text = os.environ.get(NETWORKS_VARIABLE, "")
        inside = len(AllowedNetworks.parse(text).allowed)
        return Verdict(Outcome.OK, f"public addresses and {inside} networks", "no other address is called")

    def _database_answers(self) -> Verdict:
        status = self._database.status()
        if status.state == "up" and self._database.shares_login:
            return Verdict(Outcome.LIMITED, SHARED_LOGIN, f"no service can start; {OWN_LOGIN_FIX}")
        if status.state == "up":
            return Verdict(Outcome.OK, status.address, "records and tables are stored there")
        if status.embedded and status.state == "down":
            return Verdict(Outcome.OK, "down", "started on demand")
        finding = f"{status.address} is {status.state} {status.detail}".strip()
        return Verdict(Outcome.FAILED, finding, "start it, or correct PENSTOCK_DATABASE_URL")

    def _in_records(self) -> Iterator[Row]:
        names = ("records", "applications", "tokens")
        if self._database.status().state != "up":
            yield from (Row(name, skipped("the database is not running")) for name in names)
            return
        records = _row("records", lambda: records_row(self._version, HEAD))
        yield records
        if records.verdict.outcome is Outcome.FAILED or self._version != HEAD:
            # Opening them would create or migrate them.
            yield from (Row(name, skipped("the records have another version")) for name in names[1:])
            return
        yield _row("applications", self._applications)
        yield _row("tokens", self._tokens)

    @functools.cached_property
    def _version(self) -> str | None:
        return schema.version(self._database.engine(RECORDS))

    def _applications(self) -> Verdict:
        engine = Engine(self._home)
        before = engine.list(states=(State.ACCEPTED, State.WAITING))
        return attended(
            len(list(engine.applications.unsupervised())),
            sum(application.dispatched for application in before),
            dispatched=engine.applications.dispatched(),
        )

    def _tokens(self) -> Verdict:
        return tokens(TokenStore(self._database.engine(RECORDS)).list(), datetime.now(timezone.utc))

    def _lake(self, lake: Lake) -> Verdict:
        store = stores.store_of(self._home, lake)
        if store is not None and not store.ready():
            return Verdict(Outcome.OK, "down", "started on demand")
        require_reachable(lake, Lakes(self._home).client_credentials(lake))
        more = (
            f"penstock lake check --lake {lake.name}" if lake.is_s3 else f"penstock lake hdfs status --name {lake.name}"
        )
        return Verdict(Outcome.OK, f"{lake.root} answers", f"details: {more}")

    def _service(self) -> Verdict:
        request = urllib.request.Request(f"{self._url}/health/ready")  # noqa: S310  the command checked the scheme
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS, context=_context()):  # noqa: S310
                return Verdict(Outcome.OK, f"ready at {self._url}", "the service accepts clients")
        except urllib.error.HTTPError as error:
            return Verdict(Outcome.FAILED, f"{self._url} answers {error.code}", _fix_in(error))
        except OSError as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                return Verdict(
                    Outcome.FAILED,
                    f"its certificate is invalid: {reason.verify_message}",
                    f"renew it; {CA_FILE_VARIABLE} names a private authority",
                )
            return skipped(f"none at {self._url} ({reason})")

    def _certificate(self) -> Verdict:
        parts = urlsplit(self._url)
        address = (parts.hostname or "", parts.port or 443)
        with (
            socket.create_connection(address, timeout=_PATIENCE_SECONDS) as plain,
            _context().wrap_socket(plain, server_hostname=parts.hostname) as encrypted,
        ):
            shown = encrypted.getpeercert() or {}
        not_after = ssl.cert_time_to_seconds(str(shown["notAfter"]))
        return certificate(datetime.fromtimestamp(not_after, timezone.utc), datetime.now(timezone.utc))


def _row(name: str, look: Callable[[], Verdict]) -> Row:
    try:
        return Row(name, look())
    except PenstockError as error:
        return Row(name, failed(error))
    except Exception as error:  # the check reports every defect
        return Row(name, Verdict(Outcome.FAILED, f"{type(error).__name__}: {error}", ""))


def _context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=os.environ.get(CA_FILE_VARIABLE))


def _fix_in(error: urllib.error.HTTPError) -> str:
    """The service's own error, if a Penstock service answered."""
    try:
        problem = json.loads(error.read(_MOST_OF_AN_ANSWER))
        return f"{problem['problem']}: {problem['fix']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "check the address: another program may listen there"
