"""The examination of this installation: findings, and what follows from each. It starts and changes nothing."""

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
from penstock.engine.webhooks import KEY_FILE, NETWORKS_VARIABLE, Reach
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.check import Judgement, Outcome, Row, require_reachable
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


def failed(error: PenstockError) -> Judgement:
    """What stands in the way, as any command would say it."""
    told = f"{error.problem}: {error.why}" if error.why else error.problem
    return Judgement(Outcome.FAILED, told, error.fix)


def without_costs(error: PenstockError) -> Judgement:
    """Prices that cannot be read stop no application."""
    return Judgement(Outcome.LIMITED, f"{error.problem}: {error.why}", f"tells no costs until mended: {error.fix}")


def skipped(why: str) -> Judgement:
    return Judgement(Outcome.SKIPPED, why, "")


def room(capacity: Capacity) -> Judgement:
    """Whether an application that asks for nothing fits, and how many at once."""
    usual = admission.usual_size(capacity)
    wanted = promised(usual)
    seen = f"{capacity.cores} cores, {gibibytes(capacity.memory_bytes)} for applications"
    if refusal := admission.too_large(usual, capacity):
        return Judgement(Outcome.FAILED, seen, f"cannot start an application of the usual size: {refusal.message}")
    if waits := admission.waits_for(usual, capacity):
        return Judgement(Outcome.LIMITED, seen, f"queues an application of the usual size: {waits.message}")
    at_once = min(
        capacity.memory_bytes // wanted.memory_bytes,
        int(capacity.cores * CORES_PER_CORE) // wanted.cores,
    )
    return Judgement(Outcome.OK, seen, f"runs {at_once} of the usual size at once; others wait")


def disk(free_bytes: int, directory: Path) -> Judgement:
    seen = f"{gibibytes(free_bytes)} free for {directory}"
    if free_bytes < _LEAST_FREE_BYTES:
        return Judgement(Outcome.FAILED, seen, "shuffles and logs find no room: free some, or move PENSTOCK_HOME")
    if free_bytes < _FEW_FREE_BYTES:
        return Judgement(Outcome.LIMITED, seen, "a large shuffle may fill it: free some, or move PENSTOCK_HOME")
    return Judgement(Outcome.OK, seen, "keeps scratch, logs and the records there")


def open_files(limit: int) -> Judgement:
    if limit < _FEW_OPEN_FILES:
        return Judgement(
            Outcome.LIMITED, f"{limit} at once", f"may refuse clients and lose shuffles: ulimit -n {_FEW_OPEN_FILES}"
        )
    return Judgement(Outcome.OK, f"{limit} at once", "serves clients and shuffles with them")


def private(modes: Mapping[Path, int]) -> Judgement:
    """`modes` of what holds secrets: directories and files that are there."""
    if open_to_others := sorted(path for path, mode in modes.items() if mode & _EVERYBODY_ELSE):
        paths = " ".join(f"'{path}'" for path in open_to_others)
        return Judgement(Outcome.FAILED, f"others can read {len(open_to_others)} of them", f"chmod go= {paths}")
    seen = f"{len(modes)} places for their owner only" if modes else "none yet"
    return Judgement(Outcome.OK, seen, "keeps credentials and tokens there")


def records_row(version: str | None, head: str) -> Judgement:
    """The version of the records, and this release's."""
    if version is None:
        return Judgement(Outcome.OK, "none yet", "makes them with the first application")
    if version == head:
        return Judgement(Outcome.OK, f"version {version}", "reads and writes them")
    if version < head:
        return Judgement(
            Outcome.LIMITED, f"version {version}", f"the next command brings them to {head}: back them up before"
        )
    return Judgement(
        Outcome.FAILED, f"version {version}, made by a newer Penstock", f"install that release; this one knows {head}"
    )


def attended(left_alone: int, waiting: int, *, dispatched: bool) -> Judgement:
    """`left_alone`: nobody looks after them. `waiting`: for a dispatcher to start them. `dispatched`: one lives."""
    if waiting and not dispatched:
        return Judgement(Outcome.LIMITED, f"{waiting} wait, and no service starts them", "start one: penstock serve")
    if left_alone:
        return Judgement(
            Outcome.LIMITED, f"nobody looks after {left_alone}", "a service adopts them, or: penstock down stops them"
        )
    return Judgement(Outcome.OK, "somebody looks after each", "finds those that lose their process")


def tokens(known: Sequence[Token], at: datetime) -> Judgement:
    if not known:
        return Judgement(Outcome.OK, "none", "makes an administrator's with the first penstock serve")
    valid = [token for token in known if token.expires_at is None or token.expires_at > at]
    if not valid:
        return Judgement(Outcome.FAILED, f"all {len(known)} have expired", "penstock token create NAME")
    soon = [token for token in valid if token.expires_at is not None and token.expires_at - at < _SOON]
    if soon:
        names = ", ".join(token.name for token in soon)
        return Judgement(Outcome.LIMITED, f"{len(valid)} valid; soon to expire: {names}", "penstock token rotate ID")
    lasting = sum(
        token.expires_at is None and any(scope is Scope.ADMINISTER for scope in token.grants.values())
        for token in valid
    )
    told = f"{len(valid)} valid" + (f", {lasting} of an administrator for ever" if lasting else "")
    return Judgement(Outcome.OK, told, "accepts them")


def certificate(not_after: datetime, at: datetime) -> Judgement:
    left = not_after - at
    seen = f"valid until {not_after:%Y-%m-%d}"
    if left <= timedelta():
        return Judgement(Outcome.FAILED, seen, "clients refuse it: renew it and start the service again")
    if left < _SOON:
        return Judgement(Outcome.LIMITED, seen, "renew it, and start the service again")
    return Judgement(Outcome.OK, seen, "encrypts with it")


_PATIENCE_SECONDS = 5.0
_MOST_OF_AN_ANSWER = 64 << 10


class Examination:
    """`url` is where a service of this home should answer."""

    def __init__(self, home: Home, url: str) -> None:
        self._home = home
        self._url = url
        self._database = Database(home)

    def rows(self) -> Iterator[Row]:
        """One by one, as they are found; what cannot be looked at is a failed row, never an exception."""
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

    def _java(self) -> Judgement:
        java = jvm.find_java()
        return Judgement(Outcome.OK, f"{java.version} in {java.home}", "runs Spark with it")

    def _jars(self) -> Judgement:
        return Judgement(Outcome.OK, f"{len(jvm.class_path())} of Spark's and Penstock's", "gives every cluster them")

    def _disk(self) -> Judgement:
        existing = next(path for path in (self._home.root, *self._home.root.parents) if path.exists())
        return disk(shutil.disk_usage(existing).free, self._home.root)

    def _secrets(self) -> Judgement:
        places = (
            self._home.root,
            CredentialsFile(self._home).path,
            first_token_file(self._home),
            self._home.root / KEY_FILE,
        )
        return private({path: path.stat().st_mode for path in places if path.exists()})

    def _prices(self) -> Judgement:
        try:
            prices = Pricing(self._home).prices()
        except PenstockError as error:
            return without_costs(error)
        return Judgement(Outcome.OK, f"in {prices.currency}, of {prices.date}", "tells what each application cost")

    def _webhooks(self) -> Judgement:
        text = os.environ.get(NETWORKS_VARIABLE, "")
        inside = len(Reach.parse(text).allowed)
        return Judgement(Outcome.OK, f"public addresses and {inside} networks", "sends them nowhere else")

    def _database_answers(self) -> Judgement:
        status = self._database.status()
        if status.state == "up" and self._database.shares_its_login:
            return Judgement(Outcome.LIMITED, SHARED_LOGIN, f"starts no service; {OWN_LOGIN_FIX}")
        if status.state == "up":
            return Judgement(Outcome.OK, status.address, "keeps records and tables there")
        if status.embedded and status.state == "down":
            return Judgement(Outcome.OK, "down", "starts it when it is needed")
        told = f"{status.address} is {status.state} {status.detail}".strip()
        return Judgement(Outcome.FAILED, told, "start it, or correct PENSTOCK_DATABASE_URL")

    def _in_records(self) -> Iterator[Row]:
        names = ("records", "applications", "tokens")
        if self._database.status().state != "up":
            yield from (Row(name, skipped("the database is not up")) for name in names)
            return
        records = _row("records", lambda: records_row(self._version, HEAD))
        yield records
        if records.judgement.outcome is Outcome.FAILED or self._version != HEAD:
            # Opening them would make them, or bring them to this release's version.
            yield from (Row(name, skipped("the records are not of this version")) for name in names[1:])
            return
        yield _row("applications", self._applications)
        yield _row("tokens", self._tokens)

    @functools.cached_property
    def _version(self) -> str | None:
        return schema.version(self._database.engine(RECORDS))

    def _applications(self) -> Judgement:
        engine = Engine(self._home)
        before = engine.list(states=(State.ACCEPTED, State.WAITING))
        return attended(
            len(list(engine.unsupervised())),
            sum(application.dispatched for application in before),
            dispatched=engine.dispatched(),
        )

    def _tokens(self) -> Judgement:
        return tokens(TokenStore(self._database.engine(RECORDS)).list(), datetime.now(timezone.utc))

    def _lake(self, lake: Lake) -> Judgement:
        store = stores.store_of(self._home, lake)
        if store is not None and not store.ready():
            return Judgement(Outcome.OK, "down", "starts it when it is needed")
        require_reachable(lake, Lakes(self._home).client_credentials(lake))
        more = (
            f"penstock lake check --lake {lake.name}" if lake.is_s3 else f"penstock lake hdfs status --name {lake.name}"
        )
        return Judgement(Outcome.OK, f"{lake.root} answers", f"{more} tells more")

    def _service(self) -> Judgement:
        request = urllib.request.Request(f"{self._url}/health/ready")  # noqa: S310  the command checked the scheme
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS, context=_context()):  # noqa: S310
                return Judgement(Outcome.OK, f"ready at {self._url}", "answers clients there")
        except urllib.error.HTTPError as error:
            return Judgement(Outcome.FAILED, f"{self._url} answers {error.code}", _fix_in(error))
        except OSError as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                return Judgement(
                    Outcome.FAILED,
                    f"its certificate is not accepted: {reason.verify_message}",
                    f"renew it; {CA_FILE_VARIABLE} names the authority where it is your own",
                )
            return skipped(f"none at {self._url} ({reason})")

    def _certificate(self) -> Judgement:
        parts = urlsplit(self._url)
        address = (parts.hostname or "", parts.port or 443)
        with (
            socket.create_connection(address, timeout=_PATIENCE_SECONDS) as plain,
            _context().wrap_socket(plain, server_hostname=parts.hostname) as encrypted,
        ):
            shown = encrypted.getpeercert() or {}
        not_after = ssl.cert_time_to_seconds(str(shown["notAfter"]))
        return certificate(datetime.fromtimestamp(not_after, timezone.utc), datetime.now(timezone.utc))


def _row(name: str, look: Callable[[], Judgement]) -> Row:
    try:
        return Row(name, look())
    except PenstockError as error:
        return Row(name, failed(error))
    except Exception as error:  # whatever is wrong here is what was asked for
        return Row(name, Judgement(Outcome.FAILED, f"{type(error).__name__}: {error}", ""))


def _context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=os.environ.get(CA_FILE_VARIABLE))


def _fix_in(error: urllib.error.HTTPError) -> str:
    """What the service itself says, where it is one of ours."""
    try:
        problem = json.loads(error.read(_MOST_OF_AN_ANSWER))
        return f"{problem['problem']}: {problem['fix']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "look at what listens there: it may be another program"
