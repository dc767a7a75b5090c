"""Responses of the API: Pydantic models, which FastAPI serialises, and their construction from the engine's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from penstock.engine import tokens
from penstock.engine.artifacts import PLACE
from penstock.engine.engine import Engine
from penstock.engine.interactive import sessions
from penstock.engine.interactive.history import HistoryStatus
from penstock.engine.policy import scheduling
from penstock.engine.repository.applications import now
from penstock.engine.tokens import Scope
from penstock.model import CORES_PER_CORE, State, promised
from penstock.model import Application as EngineApplication
from penstock.model import Reason as EngineReason
from penstock.service.problems import PathRedactor

Moment = Annotated[
    datetime,
    # Pydantic would write `Z` for `+00:00`, and clients on Python 3.10 cannot read that.
    PlainSerializer(datetime.isoformat, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class _Response(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Reason(_Response):
    """The reason of a state."""

    code: str = Field(description="Stable, for programs.", examples=["driver_failed"])
    message: str
    fix: str = Field(description="The way to fix it.")


class ProcessSize(_Response):
    cores: int
    memory_bytes: int = Field(description="Heap, without the overhead.")


class Overhead(_Response):
    """The memory of a process beside its heap: `fixed_bytes`, or `factor` of the heap but at least `least_bytes`."""

    factor: float
    least_bytes: int
    fixed_bytes: int | None
    more_bytes: int = Field(description="Added in either case: off-heap memory, and that of Python.")


class ClusterSize(_Response):
    driver: ProcessSize
    executor: ProcessSize
    executors: int
    scratch_memory_bytes: int = Field(description="The memory for shuffle and spill of all executors together.")
    driver_overhead: Overhead
    executor_overhead: Overhead


class Specification(_Response):
    """A submission, with its defaults filled in."""

    application: str
    size: ClusterSize
    name: str
    arguments: list[str]
    main_class: str | None
    profile: str
    lake: str | None
    settings: dict[str, str]
    environment: dict[str, str]
    jars: list[str]
    files: list[str]
    python_files: list[str]
    tags: list[str]
    time_limit_seconds: float | None
    idempotency_key: str | None
    instance: str
    priority: int
    retries: int
    webhooks: list[str]
    engine: str


class Cost(_Response):
    amount: float
    currency: str


class Attempt(_Response):
    """A failed attempt that another one followed."""

    number: int
    admitted_at: Moment | None
    started_at: Moment | None
    ended_at: Moment
    exit_code: int | None
    reason: Reason
    spark_application_id: str | None
    cost: Cost | None


class ApplicationResponse(_Response):
    """A submission and its state; unknown values are null."""

    id: str
    name: str
    state: State
    instance: str
    priority: int
    reason: Reason | None
    submitted_at: Moment
    admitted_at: Moment | None
    started_at: Moment | None = Field(description="The start of its Spark context.")
    ended_at: Moment | None
    not_before: Moment | None = Field(description="The earliest start of the next attempt.")
    attempt: int
    attempts: list[Attempt] = Field(description="The earlier attempts.")
    cost: Cost | None = Field(description="The cost of its clusters until now.")
    spark_application_id: str | None
    exit_code: int | None = Field(description="The driver's.")
    summary: dict[str, Any] | None = Field(description="Totals of its work, once it has ended.")
    progress: dict[str, Any] | None = Field(description="Its present work, while it runs.")
    ui: str | None = Field(description="POST to this address returns a link to Spark's own pages. Null unless it runs.")
    spec: Specification


class Submitted(ApplicationResponse):
    warnings: list[str] = Field(description="Settings that probably do not have the intended effect.")


class Applications(_Response):
    items: list[ApplicationResponse]
    next: str | None = Field(description="The `page` of the next request; null on the last page.")


class Event(_Response):
    at: Moment
    event: str
    from_state: State | None
    to_state: State
    detail: dict[str, Any]


class History(_Response):
    items: list[Event]


class Delivery(_Response):
    """One notification of one change of state to one webhook."""

    id: int
    url: str
    state: State = Field(description="The new state.")
    tries: int
    due_at: Moment | None = Field(description="The time of the next try; null once it was delivered, or given up.")
    delivered_at: Moment | None
    problem: str | None = Field(description="The error of the last try.")


class Deliveries(_Response):
    items: list[Delivery]


class Quota(_Response):
    """The most at one time; null for no limit."""

    cores: int | None
    memory_bytes: int | None
    running: int | None
    waiting: int | None


class Use(_Response):
    cores: int
    memory_bytes: int
    running: int
    waiting: int


class Instance(_Response):
    name: str
    weight: float
    quota: Quota
    engine: str | None = Field(description="The engine of SQL statements that name none; null for Spark.")
    used: Use


class WebhookKey(_Response):
    key: str = Field(description="`whsec_` and base64")


class Instances(_Response):
    items: list[Instance]


class Waiting(_Response):
    id: str
    name: str
    instance: str
    priority: int
    position: int = Field(description="The position in the whole queue, from 1.")
    submitted_at: Moment
    reason: Reason | None = Field(description="The reason why it waits; null where it starts now.")
    cores: int
    memory_bytes: int


class Amount(_Response):
    cores: int
    memory_bytes: int


class Capacity(Amount):
    promisable_cores: int = Field(description="More than `cores`, since drivers are idle most of the time.")


class Queue(_Response):
    items: list[Waiting]
    capacity: Capacity
    used: Use


class Token(_Response):
    id: str
    name: str
    grants: dict[str, Scope] = Field(description="Scope by instance; `*` means all instances.")
    scopes: list[Scope]
    instances: list[str] | None = Field(description="Null for all.")
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None


class Tokens(_Response):
    items: list[Token]


class NewToken(Token):
    token: str = Field(description="The token to send with requests. It is shown only this once.")


class Uploaded(_Response):
    address: str = Field(
        description="The address to use in a submission.", examples=["s3a://lake/penstock/uploads/…/job.py"]
    )


class Caller(_Response):
    name: str
    scopes: list[Scope]
    instances: list[str] | None = Field(description="Null for all.")
    grants: dict[str, Scope]
    version: str
    capacity: Amount
    usual_size: ClusterSize = Field(description="The default size of an application.")
    authenticated: bool


class Column(_Response):
    name: str
    type: str = Field(description="Spark's name of the type.", examples=["decimal(7,2)"])
    partition: bool
    analyzed: bool = Field(description="Whether the column has statistics.")
    comment: str
    default: str | None = Field(
        description="The value, as SQL, that Spark reads from files without the column; null for NULL.", examples=["5"]
    )


class Table(_Response):
    database: str
    name: str
    kind: str
    format: str
    location: str = Field(description="Empty for a view.")
    partitions: int | None = Field(description="Null for an unpartitioned table.")
    rows: int | None = Field(description="As last analyzed; null if it never was.")
    size_bytes: int | None
    columns: list[Column]
    keeps_files: bool = Field(description="Whether an Iceberg table may share files with others: none is deleted.")
    statistics: str = Field(description="The optimizer's statistics: none, table, or columns.")


class Tables(_Response):
    items: list[Table]


class PreviewColumn(_Response):
    name: str
    type: str


class Preview(_Response):
    columns: list[PreviewColumn]
    rows: list[list[Any]] = Field(
        description="Values in the order of the columns; values without a JSON type are text."
    )
    truncated: bool = Field(description="Whether the table has more.")


class Lake(_Response):
    name: str
    default: bool = Field(description="Whether requests without a lake use it.")
    endpoints: list[str]
    bucket: str
    kind: str
    embedded: bool
    running: bool | None = Field(description="The state of a store on this machine; null for other stores.")


class Lakes(_Response):
    items: list[Lake]


class Profile(_Response):
    name: str
    summary: str


class Profiles(_Response):
    items: list[Profile]


class Tier(_Response):
    tier: str = Field(examples=["memory", "disk"])
    directory: str
    budget_bytes: int = Field(description="0 for a tier that does not exist.")
    used_bytes: int
    pages: int
    evictions: int


class CacheUse(_Response):
    id: str
    name: str
    hit_rate: float | None = Field(description="The share of its reads that came from the cache.")
    read_bytes: int


class Cache(_Response):
    tiers: list[Tier]
    applications: list[CacheUse] = Field(description="The last applications.")


class Session(_Response):
    id: str = Field(description="Also the id of its application.")
    name: str
    state: State
    reason: Reason | None
    submitted_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    instance: str
    protocol: sessions.SessionProtocol
    idle_seconds: float = Field(description="The session ends after so long without use.")
    address: str | None = Field(description="Its address without the token; null until it listens.")
    size: ClusterSize


class Sessions(_Response):
    items: list[Session]


class SessionAddress(_Response):
    address: str = Field(description="Token included.", examples=["sc://localhost:15002/;token=…"])


class HistoryServer(_Response):
    lake: str
    running: bool
    ready: bool = Field(description="Whether its pages are available.")
    started_at: Moment | None
    ended_at: Moment | None
    idle_ends_at: Moment | None = Field(description="The time when it ends without further use.")
    size: dict[str, int]
    url: str = Field(description="POST to this address returns a link to its pages.")


class PagesLink(_Response):
    url: str = Field(description="A link to the origin of Spark's pages, valid once.")
    expires_at: Moment = Field(description="The end of the link's validity.")


class Run(_Response):
    id: str
    run: str = Field(description="The same as `id`.")
    workload: str
    arm: str
    scale: float | None
    created_at: str = Field(examples=["2026-11-21 12:00:00 UTC"])
    experiment: str | None
    batch: str | None
    ended: bool
    outcome: str = Field(
        description="ok, failed or wrong; running or interrupted before its end; damaged if its description is."
    )
    repetitions: int | None
    repetitions_done: int


class Runs(_Response):
    items: list[Run]


class Audit(_Response):
    at: Moment
    actor: str = Field(description="The token's name.")
    action: str = Field(examples=["POST /v1/applications"])
    subject: str
    instance: str | None
    outcome: str = Field(examples=["done", "refused", "failed"])
    address: str
    detail: dict[str, Any]


class AuditPage(_Response):
    items: list[Audit]
    next: int | None = Field(description="The `page` of the next request; null on the last page.")


class Log(_Response):
    name: str
    bytes: int | None = Field(description="Its present length; null where nothing is written yet.")


class Logs(_Response):
    items: list[Log]


class Metrics(_Response):
    id: str
    state: State
    progress: dict[str, Any] | None
    summary: dict[str, Any] | None
    cost: Cost | None


class Results(_Response):
    items: list[dict[str, Any]]


class Statements(_Response):
    statements: str


_PLACES = (PLACE, "artefacts_problem")
"""Values of the summary that may have paths: of artifacts that could not be stored in the lake, and why."""
_QUEUED = (State.ACCEPTED, State.WAITING)


class Context(Protocol):
    """The part of the service that responses are made from."""

    engine: Engine
    path_redactor: PathRedactor


def application(context: Context, found: EngineApplication) -> ApplicationResponse:
    observed = context.engine.clusters.observe(found)
    progress = observed.progress if observed is not None else None
    return ApplicationResponse.model_validate(
        {
            **vars(found),
            **{name: getattr(found.spec, name) for name in ("name", "instance", "priority")},
            "reason": found.reason and _reason(context, found.reason),
            "attempts": [{**vars(attempt), "reason": _reason(context, attempt.reason)} for attempt in found.attempts],
            "cost": cost(context, found),
            "summary": None if found.summary is None else _redacted(context, found.summary),
            "progress": None if progress is None else context.path_redactor.redact_json(progress),
            "ui": f"/v1/applications/{found.id}/ui" if found.can_be_watched else None,
        }
    )


def submitted(context: Context, found: EngineApplication, warnings: Iterable[str]) -> Submitted:
    return Submitted(**dict(application(context, found)), warnings=list(warnings))


def _reason(context: Context, reason: EngineReason) -> Reason:
    redact = context.path_redactor.redact
    return Reason(code=reason.code, message=redact(reason.message), fix=redact(reason.fix))


def _redacted(context: Context, summary: Mapping[str, Any]) -> dict[str, Any]:
    places = {name: context.path_redactor.redact(str(summary[name])) for name in _PLACES if name in summary}
    return {**summary, **places}


def cost(context: Context, found: EngineApplication) -> Cost | None:
    so_far = context.engine.pricing.accrued_cost(found, now())
    return None if so_far is None else Cost.model_validate(so_far)


def session(context: Context, found: sessions.Session) -> Session:
    return Session.model_validate(context.path_redactor.redact_json(found.to_json()))


def instance(found: scheduling.Instance, use: scheduling.InstanceUsage) -> Instance:
    return Instance(
        name=found.name,
        weight=found.weight,
        quota=Quota.model_validate(found.quota),
        engine=found.engine,
        used=Use.model_validate(use),
    )


def token(found: tokens.Token) -> Token:
    return Token.model_validate(found.to_json())


def new_token(found: tokens.Token, text: str) -> NewToken:
    return NewToken(**dict(token(found)), token=text)


def history_server(found: HistoryStatus, *, url: str) -> HistoryServer:
    return HistoryServer.model_validate({**found.to_json(), "url": url})


def queue(context: Context, sees: Callable[[str], bool], instance: str | None = None) -> Queue:
    """Return the queue of all instances or of one, without the instances that the caller does not see."""
    waiting = {found.id: found for found in context.engine.list(states=_QUEUED)}
    items = []
    for place in context.engine.queue(instance):
        # An application admitted between the two reads is no longer waiting.
        if (found := waiting.get(place.id)) is None or not sees(place.instance):
            continue
        parts = {**vars(place), **vars(promised(found.spec.size))}
        parts |= {"name": found.spec.name, "priority": found.spec.priority, "submitted_at": found.submitted_at}
        items.append(Waiting.model_validate(parts))
    capacity = context.engine.backend.capacity()
    used = context.engine.queues.usage().values()
    return Queue(
        items=items,
        capacity=Capacity.model_validate({**vars(capacity), "promisable_cores": int(capacity.cores * CORES_PER_CORE)}),
        used=Use(**{part: sum(getattr(use, part) for use in used) for part in Use.model_fields}),
    )
