"""Looks at this installation without changing it: nothing is started, made or migrated."""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from urllib.parse import urlsplit

from penstock.catalog.database import OWN_LOGIN_FIX, RECORDS, SHARED_LOGIN, Database
from penstock.client.connection import CA_FILE_VARIABLE
from penstock.clusters import choice
from penstock.doctor import findings
from penstock.engine.engine import Engine
from penstock.engine.repository import schema
from penstock.engine.repository.migrations import HEAD
from penstock.engine.tokens import TokenStore, first_token_file
from penstock.engine.webhooks import KEY_FILE, NETWORKS_VARIABLE, Reach
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.check import Judgement, Outcome, Row, require_reachable
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import State
from penstock.prices import Pricing
from penstock.runtime import jvm

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
        yield _row("room", lambda: findings.room(choice.capacity(self._home)))
        yield _row("disk", self._disk)
        yield _row("open files", lambda: findings.open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
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
        return findings.disk(shutil.disk_usage(existing).free, self._home.root)

    def _secrets(self) -> Judgement:
        places = (
            self._home.root,
            CredentialsFile(self._home).path,
            first_token_file(self._home),
            self._home.root / KEY_FILE,
        )
        return findings.private({path: path.stat().st_mode for path in places if path.exists()})

    def _prices(self) -> Judgement:
        try:
            prices = Pricing(self._home).prices()
        except PenstockError as error:
            return findings.without_costs(error)
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
            yield from (Row(name, findings.skipped("the database is not up")) for name in names)
            return
        records = _row("records", lambda: findings.records(self._version, HEAD))
        yield records
        if records.judgement.outcome is Outcome.FAILED or self._version != HEAD:
            # Opening them would make them, or bring them to this release's version.
            yield from (Row(name, findings.skipped("the records are not of this version")) for name in names[1:])
            return
        yield _row("applications", self._applications)
        yield _row("tokens", self._tokens)

    @functools.cached_property
    def _version(self) -> str | None:
        return schema.version(self._database.engine(RECORDS))

    def _applications(self) -> Judgement:
        engine = Engine(self._home)
        before = engine.list(states=(State.ACCEPTED, State.WAITING))
        return findings.attended(
            len(list(engine.unsupervised())),
            sum(application.dispatched for application in before),
            dispatched=engine.dispatched(),
        )

    def _tokens(self) -> Judgement:
        return findings.tokens(TokenStore(self._database.engine(RECORDS)).list(), datetime.now(timezone.utc))

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
            return findings.skipped(f"none at {self._url} ({reason})")

    def _certificate(self) -> Judgement:
        parts = urlsplit(self._url)
        address = (parts.hostname or "", parts.port or 443)
        with (
            socket.create_connection(address, timeout=_PATIENCE_SECONDS) as plain,
            _context().wrap_socket(plain, server_hostname=parts.hostname) as encrypted,
        ):
            shown = encrypted.getpeercert() or {}
        not_after = ssl.cert_time_to_seconds(str(shown["notAfter"]))
        return findings.certificate(datetime.fromtimestamp(not_after, timezone.utc), datetime.now(timezone.utc))


def _row(name: str, look: Callable[[], Judgement]) -> Row:
    try:
        return Row(name, look())
    except PenstockError as error:
        return Row(name, findings.failed(error))
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
