"""The engine's facade: submit, supervise, observe and stop applications. Its parts have the rest."""

from __future__ import annotations

import builtins
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock import recovery
from penstock.catalog.database import Database
from penstock.clusters.backend import ClusterBackend, Launch, Observation, Phase, WebInterface
from penstock.clusters.choice import backend_of
from penstock.engine import names, submission, uploads
from penstock.engine.artifacts import WATCH_SECONDS, Artifacts
from penstock.engine.interactive import sessions
from penstock.engine.interactive.sessions import LocalExchange, Sessions
from penstock.engine.policy import admission, lifecycle
from penstock.engine.policy.lifecycle import will_retry
from penstock.engine.policy.scheduling import Instance, QueuePosition
from penstock.engine.preparation import (
    GiveUp,
    Preparation,
    check_reachable,
    lake_name,
    lake_of,
    renewing_credentials,
    servers_of,
)
from penstock.engine.repository.applications import now
from penstock.engine.repository.audit import AuditLog, Outbox
from penstock.engine.repository.listing import ApplicationReader
from penstock.engine.repository.queues import QueueRepository
from penstock.engine.repository.repositories import Repositories
from penstock.engine.repository.retention import Pruner
from penstock.engine.submission import Submission
from penstock.engine.supervision.detached import DetachedSupervisors
from penstock.engine.supervision.supervisor import OnChange, Supervisor, is_released
from penstock.engine.uploads import UploadCopies
from penstock.errors import InternalError, InvalidInput, PenstockError, StateError
from penstock.home import Home
from penstock.lake.model import Credentials, Lake, ObjectStore, attempt_prefix
from penstock.lake.registry import Lakes
from penstock.model import (
    CORES_PER_CORE,
    DEFAULT_INSTANCE,
    Application,
    ApplicationSpec,
    ClusterSize,
    Reason,
    State,
    new_id,
)
from penstock.prices import Pricing

OnWarning = Callable[[str], None]

BY_USER = Reason(lifecycle.STOPPED_BY_USER, "it was stopped on request")

NO_SUPERVISOR_LIVES = Reason(
    recovery.SUPERVISOR_LOST,
    "each of its supervising processes ended before it did",
    "see why in supervisors.log in the state directory, and report it; then submit the application again",
)


class LiveClusters:
    """The clusters of applications that have not ended."""

    def __init__(self, home: Home, backend: ClusterBackend) -> None:
        self._home = home
        self._backend = backend

    def observe(self, application: Application) -> Observation | None:
        """The present state of its cluster; None where it has no started cluster or the cluster cannot be observed.

        In the latter case the application's reason explains why.
        """
        if application.state not in (State.STARTING, State.RUNNING, State.STOPPING):
            return None
        try:
            seen = self._backend.observe(application.cluster or self._backend.handle(application.id))
        except (PenstockError, ValueError, RecursionError):
            # Submitted code can write the files of its cluster, too.
            return None
        return None if seen.phase is Phase.LOST else seen

    def web_interface(self, application: Application) -> WebInterface | None:
        """The address of its Spark UI, which the call opens; None until then. See `ClusterBackend.web_interface`."""
        if not application.can_be_watched or application.cluster is None:
            return None
        return self._backend.web_interface(application.cluster)

    def private_file(self, application: Application, name: str) -> str | None:
        """See `ClusterBackend.private_file`. The content may only be shown to the application's owner."""
        return self._backend.private_file(application.cluster or self._backend.handle(application.id), name)

    def forwarded_port(self, application: Application, port: int) -> int | None:
        """The port of this machine's loopback that forwards to the driver's `port`; None where none does (yet)."""
        return port if self._backend.shares_files else sessions.tunnel_port(self._home, application.id)


class Engine:
    """The engine of one home. All processes of the home share its records, and so its applications.

    An instance costs nothing; the embedded database and lake are started when first needed. Thread-safe. An id may be
    abbreviated to a unique prefix, or be `last`.
    """

    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        self.home = home
        self.backend = backend or backend_of(home)
        self.database = Database(home)
        self.pricing = Pricing(home)
        self.supervisors = DetachedSupervisors(home)
        self.artifacts = Artifacts(home, self.backend, lambda: self.repositories, self.store)
        self.clusters = LiveClusters(home, self.backend)
        self.sessions = Sessions(self, self.clusters)
        self._opening = threading.Lock()
        self._repositories: Repositories | None = None
        self._preparations: dict[str, Preparation] = {}
        self._stores: dict[tuple[Lake, Credentials | None], ObjectStore] = {}

    @cached_property
    def name(self) -> str:
        """The name under which this engine's records are in its database, and its uploads in its lakes."""
        return names.name_of(self.home) if self.database.embedded else names.host_and_directory(self.home)

    @cached_property
    def uploads(self) -> str:
        """The prefix of this engine's uploads in its lakes."""
        return uploads.prefix_of(self.name)

    @cached_property
    def upload_copies(self) -> UploadCopies:
        return UploadCopies(self.home, self.uploads)

    @property
    def repositories(self) -> Repositories:
        """The repositories of its database, which is started if needed."""
        with self._opening:
            if self._repositories is None:
                # The name depends on whether the database exists already.
                name = self.name
                self._repositories = Repositories.open(self.database.engine("penstock"), name)
            return self._repositories

    @property
    def applications(self) -> ApplicationReader:
        return self.repositories.applications

    @property
    def queues(self) -> QueueRepository:
        return self.repositories.queues

    @property
    def audit(self) -> AuditLog:
        return self.repositories.audit

    @property
    def outbox(self) -> Outbox:
        return self.repositories.outbox

    @property
    def pruner(self) -> Pruner:
        return self.repositories.pruner

    def lake(self, name: str | None = None) -> Lake:
        """The named or default lake; the embedded one is started if needed."""
        return lake_of(self.home, name)

    def instance(self, name: str | None) -> Instance:
        """The instance of that name, or the default one. Raises `NotFound`."""
        return self.queues.instance(name or DEFAULT_INSTANCE)

    def bytes_below(self, lake: Lake, address: str) -> int | None:
        """The size of all objects below an address; None where it is not in the lake."""
        try:
            prefix = lake.key(address).rstrip("/") + "/"
        except InvalidInput:
            return None
        return sum(found.size for found in self.store(lake.name).list(prefix))

    def store(self, lake: str | None) -> ObjectStore:
        """A client of the named or default lake's bucket."""
        # The module is slow to load and only needed when an application ends.
        from penstock.lake.s3 import open_store

        found = lake_of(self.home, lake)
        known = (found, Lakes(self.home).client_credentials(found))
        # A client takes a tenth of a second to make, so it is reused until the lake or its credentials change.
        if known not in self._stores:
            self._stores[known] = open_store(self.home, found)
        return self._stores[known]

    def exchange(self, lake: Lake) -> LocalExchange:
        """The transport of SQL statements and their results through the lake."""
        return LocalExchange(self, lake)

    def get(self, application_id: str) -> Application:
        """Raises `NotFound`, and `InvalidInput` where the prefix is ambiguous."""
        return self.applications.get(application_id)

    def list(
        self,
        *,
        states: Iterable[State] = (),
        tags: Iterable[str] = (),
        instances: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> builtins.list[Application]:
        """Applications, newest first, of all instances unless some are named."""
        return self.applications.list(states=states, tags=tags, instances=instances, limit=limit)

    def submit(self, spec: ApplicationSpec, on_warning: OnWarning = lambda _: None) -> Application:
        """Record an application that `supervise` or `detach` then runs.

        An application that cannot run is refused before it is recorded. Raises `InvalidInput`, `NotFound`,
        `MissingRequirement`, `ClusterError` (a cluster larger than the declared maximum) and `QuotaExceeded` (a full
        queue). A repeated idempotency key of the instance returns the application that it belongs to; it raises
        `Conflict` where the specifications differ. `on_warning` receives the warnings of an accepted submission.
        """
        return self._add(spec, on_warning, dispatched=False)

    def enqueue(self, spec: ApplicationSpec, on_warning: OnWarning = lambda _: None) -> Application:
        """Record an application that a `Dispatcher` starts when its turn comes. Raises the errors of `submit`.

        It prepares nothing, so a submission costs no more than its record.
        """
        return self._add(spec, on_warning, dispatched=True)

    def _add(self, submitted: ApplicationSpec, on_warning: OnWarning, *, dispatched: bool) -> Application:
        fingerprint = None
        if key := submitted.idempotency_key:
            fingerprint = submitted.fingerprint()
            # Before any check: a repeated submission stays the same even if its files are gone by now.
            if first := self.repositories.transitions.with_key(submitted.instance, key, fingerprint=fingerprint):
                shares_login = self.database.shares_login
                for warning in submission.warnings_again(first.spec, self.backend, shares_login=shares_login):
                    on_warning(warning)
                return first
        Lakes(self.home).require_usable(submitted.lake, lambda queue: queue == submitted.instance)
        resolved = self.resolve(submitted)
        spec = resolved.spec
        preparation = None if dispatched else Preparation(self.home, self.database, spec.lake)
        # The default lake may have changed when the application is rerun or read.
        spec = replace(spec, lake=preparation.lake.name if preparation else lake_name(self.home, spec.lake))
        at = now()
        fresh = Application(new_id(at), spec, State.ACCEPTED, submitted_at=at, dispatched=dispatched)
        added = self.repositories.transitions.add(fresh, fingerprint=fingerprint)
        if preparation and added.id == fresh.id:
            self._preparations[added.id] = preparation
        for warning in resolved.warnings:
            on_warning(warning)
        return added

    def resolve(self, spec: ApplicationSpec) -> Submission:
        """Check the specification and derive its values, and record nothing. Raises the errors of `submit`."""
        return submission.resolve(spec, self.backend, shares_login=self.database.shares_login)

    def supervise(
        self,
        application_id: str,
        on_change: OnChange = lambda *_: None,
        *,
        cores_per_core: float = CORES_PER_CORE,
    ) -> Application:
        """Drive the application to its end in this process and return it as it ended. See `Supervisor.run`."""
        return self.supervisor(application_id, cores_per_core=cores_per_core).run(application_id, on_change)

    def supervisor(self, application_id: str, *, cores_per_core: float = CORES_PER_CORE) -> Supervisor:
        """A supervisor that the client may `stop` or `force_stop` during `run`.

        `cores_per_core`: see `admission.room`.
        """
        preparation = self._preparations.pop(application_id, None)

        def prepare(application: Application) -> Launch:
            nonlocal preparation
            # Used once: a server that was down for one attempt may be up for the next.
            ready, preparation = preparation or Preparation(self.home, self.database, application.spec.lake), None
            spec = application.spec
            if self.backend.shares_files:
                spec = self.upload_copies.with_local_copies(spec, ready.lake)
            return ready.launch(application.id, spec)

        def store_artifacts(application: Application, directory: Path) -> Mapping[str, Any]:
            within = attempt_prefix(application.attempt) if will_retry(application) else ""
            return self.artifacts.store(application, directory, within=within)

        return Supervisor(
            self.repositories.transitions,
            self.backend,
            prepare=prepare,
            store_artifacts=store_artifacts,
            price=self.pricing.attempt_cost,
            check=lambda application: check_reachable(self.home, application.spec.lake),
            servers=lambda application: servers_of(self.home, self.database, application.spec.lake),
            companions=self._companions,
            restore=self.database.up,
            cores_per_core=cores_per_core,
        )

    def usual_size(self) -> ClusterSize:
        """The cluster size of an application that specifies none."""
        return admission.usual_size(self.backend.capacity())

    def detach(self, application_id: str) -> None:
        """Start a process that supervises the application and outlives this one."""
        self.supervisors.start(application_id)

    def request_stop(self, application_id: str, reason: Reason = BY_USER) -> Application:
        """Request the application's end and return at once; a waiting application has ended by then.

        The call is idempotent and does not change an application that has ended.
        """
        return self.repositories.transitions.request_end(self.get(application_id).id, reason)

    def stop(self, application_id: str) -> Application:
        """End the application and return it once it has ended; an ended application is returned unchanged."""
        return self.wait(self.request_stop(application_id).id)

    def rerun(self, application_id: str, on_warning: OnWarning = lambda _: None) -> Application:
        """Submit the same specification again, as a new application."""
        return self.submit(replace(self.get(application_id).spec, idempotency_key=None), on_warning)

    def wait(self, application_id: str, *, timeout_seconds: float | None = None) -> Application:
        """Wait until the application has ended and its cluster is released; start a supervisor if there is none.

        Raises `StateError` after `timeout_seconds`, and `InternalError` where no supervisor stays alive, not even to
        end the application.
        """
        restarts, ended = recovery.Restarts(), False
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not is_released(application := self.repositories.transitions.get(application_id)):
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(f"{application_id} is still {application.state.value}")
            orphans = [one for one in self.applications.unsupervised() if one == application_id]
            if restarts.due(orphans, time.monotonic()):
                if ended:
                    reason = NO_SUPERVISOR_LIVES
                    raise InternalError(f"{application_id} cannot be ended", why=reason.message, fix=reason.fix)
                if restarts.exhausted(application_id):
                    ended = True
                    self.request_stop(application_id, NO_SUPERVISOR_LIVES)
                restarts.started(application_id, time.monotonic())
                self.detach(application_id)
                self._await_supervisor(application_id)
            time.sleep(WATCH_SECONDS)
        return application

    def reconcile(self) -> Iterable[str]:
        """Start a supervisor for every application without one; return their ids.

        This finishes the work of a killed engine: running applications are adopted, the artifacts of finished ones are
        stored, and no part of a cluster remains.
        """
        orphans = self.applications.unsupervised()
        for application_id in orphans:
            self.detach(application_id)
        return orphans

    def queue(self, instance: str | None = None) -> builtins.list[QueuePosition]:
        """Waiting applications in the order in which they would start if nothing changed, with the reason of each.

        Positions refer to the whole queue, even if `instance` selects a part of it.
        """
        places = self.queues.schedule(at=now(), capacity=self.backend.capacity()).places
        return [place for place in places if instance in (None, place.instance)]

    def admit_next(self) -> Application | None:
        """Promise a cluster to the application whose turn it is, if a dispatcher has to start it and there is room.

        Returns the application, which needs a supervisor at once, or has ended because it can never run; None where
        there is none to start.
        """
        return self.repositories.transitions.admit_next(
            lambda application_id: lifecycle.Admitted(now(), self.backend.handle(application_id)),
            at=now(),
            capacity=self.backend.capacity(),
        )

    @contextlib.contextmanager
    def _companions(self, application: Application, give_up: GiveUp) -> Iterator[None]:
        with (
            renewing_credentials(self.home, self.backend)(application, give_up),
            sessions.session_tunnels(self.home, self.backend)(application),
        ):
            yield

    def _await_supervisor(self, application_id: str) -> None:
        deadline = time.monotonic() + 5
        while application_id in self.applications.unsupervised() and time.monotonic() < deadline:
            time.sleep(0.05)
