"""The engine's face: submit an application, look after it, look at it, stop it. Clients need nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import recovery
from penstock.catalog.database import SHARED_LOGIN
from penstock.clusters.backend import ClusterBackend, Launch, Observation, Phase, WebInterface
from penstock.engine import validation
from penstock.engine.artifacts import UploadCopies
from penstock.engine.detached_supervisors import DetachedSupervisors
from penstock.engine.interactive import sessions
from penstock.engine.launch import GiveUp, Preparation, check_reachable, lake_name, leasing
from penstock.engine.outputs import WATCH_SECONDS, Outputs
from penstock.engine.policy import admission
from penstock.engine.policy.lifecycle import will_retry
from penstock.engine.repository.applications import now
from penstock.engine.supervisor import OnChange, Supervisor, over
from penstock.errors import ClusterError, InternalError, PenstockError, StateError
from penstock.home import Home
from penstock.lake.model import of_attempt
from penstock.lake.registry import Lakes
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, ClusterSize, Reason, State, new_id
from penstock.profiles.check import check, refuse
from penstock.profiles.rules import Problem, Severity
from penstock.runtime import jvm

NO_SUPERVISOR_LIVES = Reason(
    recovery.SUPERVISOR_LOST,
    "each process that looked after it ended before it did",
    "see why in supervisors.log in the state directory, and report it; then submit the application again",
)


class Engine(Outputs):
    """One engine over one home. Its records, and so its applications, are shared with every other process of the home.

    Making one is free; the embedded database and lake are started when first needed. Every method may be called by
    several threads at once.
    """

    def __init__(self, home: Home, backend: ClusterBackend | None = None) -> None:
        super().__init__(home, backend)
        self.attendants = DetachedSupervisors(home)
        self.copies = UploadCopies(home, self.uploads)
        self._preparations: dict[str, Preparation] = {}

    def submit(self, spec: ApplicationSpec) -> Application:
        """Record an application, to be looked after by `supervise` or `detach`.

        What can be known to be wrong is refused here, before anything is recorded: `InvalidInput`, `NotFound`,
        `MissingRequirement`, `ClusterError` (a cluster larger than there will ever be), `QuotaExceeded` (a full queue).
        Submitting an idempotency key of the instance again returns the application it belongs to; `Conflict` where it
        is another one that is asked for.
        """
        return self._add(spec, dispatched=False)

    def enqueue(self, spec: ApplicationSpec) -> Application:
        """Record an application, to be started by a `Dispatcher` when it is its turn. Raises what `submit` does.

        It prepares nothing: however many are submitted at once, they cost no more than their records.
        """
        return self._add(spec, dispatched=True)

    def _add(self, asked: ApplicationSpec, *, dispatched: bool) -> Application:
        fingerprint = None
        if key := asked.idempotency_key:
            fingerprint = asked.fingerprint()
            # Before anything is looked at: a file that is gone by now does not make a submission another one.
            if first := self._records.with_key(asked.instance, key, fingerprint=fingerprint):
                return first
        Lakes(self.home).require_usable(asked.lake, lambda queue: queue == asked.instance)
        spec = self.checked(asked)
        preparation = None if dispatched else Preparation(self.home, self._database, spec.lake)
        # The default lake may be another one when the application is run again, or looked at.
        spec = replace(spec, lake=preparation.lake.name if preparation else lake_name(self.home, spec.lake))
        at = now()
        fresh = Application(new_id(at), spec, State.ACCEPTED, submitted_at=at, dispatched=dispatched)
        added = self._records.add(fresh, fingerprint=fingerprint)
        if preparation and added.id == fresh.id:
            self._preparations[added.id] = preparation
        return added

    def checked(self, spec: ApplicationSpec) -> ApplicationSpec:
        """The same with what follows filled in; raises what `submit` would, and starts and records nothing."""
        spec = validation.checked(spec)
        refuse(self._problems(spec))
        spec = admission.with_all_memory(spec, self._backend.overhead_factor(spec))
        jvm.find_java()
        if too_large := admission.too_large(spec.size, self._backend.capacity()):
            raise ClusterError("The cluster does not fit here", why=too_large.message, fix=too_large.fix)
        self._backend.check(spec)
        return spec

    def warnings(self, spec: ApplicationSpec) -> Sequence[str]:
        """Returns the settings that likely do not do what was meant, and what is unsafe, though it can run."""
        found = [str(problem) for problem in self._problems(spec) if problem.severity is Severity.WARNING]
        # What follows an accepted submission must not fail it.
        with contextlib.suppress(PenstockError):
            if waits := admission.waits_for(spec.size, self._backend.capacity()):
                found.append(f"the cluster is larger than what there is today: {waits.message}")
        return [*found, SHARED_LOGIN] if self._database.shares_its_login else found

    def supervise(
        self,
        application_id: str,
        on_change: OnChange = lambda *_: None,
        *,
        cores_per_core: float = CORES_PER_CORE,
    ) -> Application:
        """Drive the application to its end in this process; returns it as it ended. See `Supervisor.run`."""
        return self.supervisor(application_id, cores_per_core=cores_per_core).run(application_id, on_change)

    def supervisor(self, application_id: str, *, cores_per_core: float = CORES_PER_CORE) -> Supervisor:
        """For a client that wants to stop or insist while `run` goes on. `cores_per_core`: see `admission.room`."""
        preparation = self._preparations.pop(application_id, None)

        def prepare(application: Application) -> Launch:
            nonlocal preparation
            # Used once: what was out of reach for one attempt may be there for the next.
            ready, preparation = preparation or Preparation(self.home, self._database, application.spec.lake), None
            spec = application.spec
            if self.shares_files:
                spec = self.copies.instead_of_addresses(spec, ready.lake)
            return ready.launch(application.id, spec)

        def keep(application: Application, directory: Path) -> Mapping[str, Any]:
            within = of_attempt(application.attempt) if will_retry(application) else ""
            return self.keep(application, directory, within=within)

        return Supervisor(
            self._records,
            self._backend,
            prepare=prepare,
            keep=keep,
            price=self._pricing.of_attempt,
            check=lambda application: check_reachable(self.home, application.spec.lake),
            beside=self._beside,
            restore=self._database.up,
            cores_per_core=cores_per_core,
        )

    def usual_size(self) -> ClusterSize:
        """Of an application of which nobody says how large it is."""
        return admission.usual_size(self.capacity())

    def detach(self, application_id: str) -> None:
        """Have a process of its own look after the application; it outlives this one."""
        self.attendants.start(application_id)

    def stop(self, application_id: str) -> Application:
        """End the application and return when it has ended; one that has already is returned as it is."""
        return self.wait(self.request_stop(application_id).id)

    def rerun(self, application_id: str) -> Application:
        """Submit the same application again, as a new one."""
        return self.submit(replace(self.get(application_id).spec, idempotency_key=None))

    def wait(self, application_id: str, *, timeout_seconds: float | None = None) -> Application:
        """Until the application has ended and its cluster is gone, looking after it where nobody does.

        Raises `StateError` where that takes longer than `timeout_seconds`, and `InternalError` where no supervisor
        stays alive, not even to end the application.
        """
        restarts, ended = recovery.Restarts(), False
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not over(application := self._records.get(application_id)):
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(f"{application_id} is still {application.state.value}")
            orphans = [one for one in self._records.unsupervised() if one == application_id]
            if restarts.due(orphans, time.monotonic()):
                if ended:
                    reason = NO_SUPERVISOR_LIVES
                    raise InternalError(f"{application_id} cannot be ended", why=reason.message, fix=reason.fix)
                if restarts.hopeless(application_id):
                    ended = True
                    self.request_stop(application_id, NO_SUPERVISOR_LIVES)
                restarts.started(application_id, time.monotonic())
                self.detach(application_id)
                self._await_supervisor(application_id)
            time.sleep(WATCH_SECONDS)
        return application

    def reconcile(self) -> Iterable[str]:
        """Have somebody look after every application that nobody does; returns their ids.

        What a killed engine left behind comes to its end this way: running applications are adopted, finished ones get
        their artefacts kept, and nothing of a cluster stays.
        """
        orphans = self.unsupervised()
        for application_id in orphans:
            self.detach(application_id)
        return orphans

    def web_interface(self, application: Application) -> WebInterface | None:
        """Where its Spark UI listens. Asking opens it; None until then. See `ClusterBackend.web_interface`."""
        if not application.can_be_watched or application.cluster is None:
            return None
        return self._backend.web_interface(application.cluster)

    def private_file(self, application: Application, name: str) -> str | None:
        """See `ClusterBackend.private_file`; never to be shown but to whom it belongs."""
        return self._backend.private_file(application.cluster or self._backend.handle(application.id), name)

    def reached(self, application: Application, port: int) -> int | None:
        """The port of this machine's loopback that leads to that one of its driver's; None where none does (yet)."""
        return port if self.shares_files else sessions.port_here(self.home, application.id)

    def observe(self, application: Application) -> Observation | None:
        """What its cluster looks like now; None where it has none, none that was started, or one that cannot be seen
        now, as the application's reason then says."""
        if application.state not in (State.STARTING, State.RUNNING, State.STOPPING):
            return None
        try:
            seen = self._backend.observe(application.cluster or self._backend.handle(application.id))
        except PenstockError:
            return None
        return None if seen.phase is Phase.LOST else seen

    @contextlib.contextmanager
    def _beside(self, application: Application, give_up: GiveUp) -> Iterator[None]:
        with (
            leasing(self.home, self._backend)(application, give_up),
            sessions.keeping_open(self.home, self._backend)(application),
        ):
            yield

    def _problems(self, spec: ApplicationSpec) -> Sequence[Problem]:
        from penstock.profiles.workloads import layers_of

        layers = layers_of(spec.profile)  # also where the user set nothing: the profile must exist
        if not spec.settings:
            return []
        from penstock.profiles.known import bundled
        from penstock.profiles.layers import resolve

        return check(spec.settings, bundled(), size=spec.size, beneath=resolve(layers, spec.size).values())

    def _await_supervisor(self, application_id: str) -> None:
        deadline = time.monotonic() + 5
        while application_id in self._records.unsupervised() and time.monotonic() < deadline:
            time.sleep(0.05)
