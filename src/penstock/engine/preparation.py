"""The preparation of a launch: lake up, catalog made, temporary credentials leased.

Secrets stay apart from settings. Issued credentials and their expiry are stored in the cluster's private file alone;
the application's next supervisor reads them there and continues the renewal.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import urlsplit

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.clusters.backend import ClusterBackend, Launch
from penstock.engine.engines.contract import Access
from penstock.engine.engines.registry import engine_of
from penstock.engine.policy.observation import Server
from penstock.errors import LakeError, NotFound, PenstockError
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.settings import CREDENTIALS_FILE, parse_lease, private_credentials_file
from penstock.lake.sts import Lease, is_lost, renewal_at
from penstock.model import Application, ApplicationSpec
from penstock.recovery import Kind, as_problem, kind_of
from penstock.runtime import jvm

_log = logging.getLogger(__name__)

GiveUp = Callable[[PenstockError], None]

_LONGEST_SLEEP_SECONDS = 30.0
"""The longest sleep between two looks at the clock, which may be set, as a machine may be suspended."""


def credentials_for(lake: Lake, own: Credentials, application_id: str) -> Credentials | Lease:
    """The application's credentials: temporary ones where the lake's record configures an STS, else the lake's own.

    Raises `LakeError` where the store fails to issue temporary ones; the lake's own never replace them.
    """
    if lake.sts is None:
        return own
    # boto3 takes half a second to load, which only lakes that issue credentials need.
    from penstock.lake.sts import issue

    return issue(lake, lake.sts, own, application_id)


class CredentialRenewal:
    """The renewal of one application's credentials, in its own thread until `close`."""

    def __init__(
        self,
        application_id: str,
        held: Lease,
        *,
        issue: Callable[[], Credentials | Lease],
        write: Callable[[str], None],
        give_up: GiveUp,
        clock: Callable[[], float] = time.time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """Tests replace `clock` and `wait`; `wait(closed, seconds)` returns after `seconds` or once `closed` is set."""
        self._id = application_id
        self._held = held
        self._issue = issue
        self._write = write
        self._give_up = give_up
        self._clock = clock
        self._wait = wait
        self._closed = threading.Event()
        self._writing = threading.Lock()
        threading.Thread(target=self._run, name=f"leasing-{application_id}", daemon=True).start()

    def close(self) -> None:
        """Write nothing from now on; a request in flight is abandoned."""
        with self._writing:
            self._closed.set()

    def _run(self) -> None:
        held, failures, failed_at = self._held, 0, 0.0
        while self._sleep_until(renewal_at(held, failures, failed_at=failed_at)):
            given = self._ask()
            if isinstance(given, PenstockError):
                failures, failed_at = failures + 1, self._clock()
                if is_lost(held, at=failed_at):
                    self._give_up(_lost(self._id, given))
                    return
            elif isinstance(given, Lease):
                held, failures = given, 0
            else:
                return  # The lake was reconfigured and now gives its own credentials, which do not expire.

    def _ask(self) -> Credentials | Lease | PenstockError:
        try:
            given = self._issue()
            with self._writing:
                if not self._closed.is_set():
                    self._write(private_credentials_file(given))
        except Exception as error:
            if kind_of(error) is Kind.DEFECT:
                _log.exception("%s: the renewal of its lake credentials is retried", self._id)
            return as_problem(error, "renew the lake's credentials")
        return given

    def _sleep_until(self, at: float) -> bool:
        """Return False once the renewal is closed."""
        while (left := at - self._clock()) > 0 and not self._closed.is_set():
            self._wait(self._closed, min(left, _LONGEST_SLEEP_SECONDS))
        return not self._closed.is_set()


def renewing_credentials(
    home: Home, backend: ClusterBackend
) -> Callable[[Application, GiveUp], contextlib.AbstractContextManager[None]]:
    """A context manager that renews the credentials of a supervised cluster for as long as it lives."""

    @contextlib.contextmanager
    def companions(application: Application, give_up: GiveUp) -> Iterator[None]:
        handle = application.cluster or backend.handle(application.id)

        def issue() -> Credentials | Lease:
            lakes = Lakes(home)
            lake = lakes.get(application.spec.lake)
            return credentials_for(lake, lakes.credentials_of(lake), application.id)

        def write(content: str) -> None:
            backend.replace_private_file(handle, CREDENTIALS_FILE, content)

        held = parse_lease(backend.private_file(handle, CREDENTIALS_FILE) or "")
        with contextlib.ExitStack() as stack:
            if held is not None:
                stack.callback(CredentialRenewal(application.id, held, issue=issue, write=write, give_up=give_up).close)
            yield

    return companions


def _lost(application_id: str, error: PenstockError) -> LakeError:
    return LakeError(
        f"The lake credentials of {application_id} ended and could not be renewed",
        why=f"{error.problem}: {error.why}" if error.why else error.problem,
        fix=error.fix,
    )


def lake_of(home: Home, name: str | None) -> Lake:
    """The named or default lake, started if this machine runs it; the embedded one where no lake is registered."""
    lakes = Lakes(home)
    try:
        lake = lakes.get(name)
    except NotFound:
        if name not in (None, EMBEDDED):
            raise
        return EmbeddedLake(home).ensure()
    return stores.ensure_running(home, lake)


def lake_name(home: Home, name: str | None) -> str:
    """The name of the lake that `lake_of` returns, without starting it. Raises `NotFound` for an unknown name."""
    try:
        return Lakes(home).get(name).name
    except NotFound:
        if name not in (None, EMBEDDED):
            raise
        return EMBEDDED


def servers_of(home: Home, database: Database, name: str | None) -> list[Server]:
    """The servers of the lake and of the catalog, without starting any; those of an unknown lake are left out."""
    found = [database.catalog_server]
    with contextlib.suppress(PenstockError, OSError):
        lake = Lakes(home).get(name)
        addresses = [*lake.endpoints, *([f"hdfs://{lake.hdfs.namenode}"] if lake.hdfs else [])]
        found += [
            (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
            for parts in map(urlsplit, addresses)
        ]
    return [server for server in found if all(server)]


def check_reachable(home: Home, name: str | None) -> None:
    """Require an external lake that answers.

    Raises `LakeError` where no gateway answers, the credentials are refused, or the bucket is missing. Lakes of this
    machine are skipped, since `lake_of` has just started them or seen them running.
    """
    lakes = Lakes(home)
    lake = lakes.get(name)
    if stores.store_of(home, lake) is None:
        from penstock.lake.checks.verdicts import require_usable

        require_usable(lake, lakes.client_credentials(lake))


class Preparation:
    """Lake and catalog, opened concurrently from the constructor on and awaited when needed."""

    def __init__(self, home: Home, database: Database, lake: str | None) -> None:
        self._home = home
        with ThreadPoolExecutor(2) as pool:
            self._lake: Future[tuple[Lake, Credentials | None]] = pool.submit(self._open_lake, lake)
            self._metastore: Future[Metastore] = pool.submit(_open_catalog, database)
            pool.shutdown(wait=False)

    @property
    def lake(self) -> Lake:
        return self._lake.result()[0]

    def hive_site(self) -> str:
        return self._metastore.result().hive_site()

    def launch(self, application_id: str, spec: ApplicationSpec) -> Launch:
        """The launch plan. Raises `LakeError`, `CatalogError`, `MissingRequirement`, `InvalidInput` or `NotFound`."""
        lake, own = self._lake.result()
        credentials = None if own is None else credentials_for(lake, own, application_id)
        access = Access(lake, credentials, self._metastore.result())
        return engine_of(spec).launch(application_id, spec, access)

    def _open_lake(self, name: str | None) -> tuple[Lake, Credentials | None]:
        lake = lake_of(self._home, name)
        return lake, Lakes(self._home).client_credentials(lake)


def _open_catalog(database: Database) -> Metastore:
    metastore = Metastore(database)
    metastore.ensure_schema(jvm.find_java().executable, jvm.class_path())
    return metastore
