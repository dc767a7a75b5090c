"""Responses of the API: their schemas for the published description, and the views that make them of records.

A test holds schemas and views together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel, Field

from penstock.engine.artifacts import PLACE
from penstock.engine.engine import Engine
from penstock.engine.repository.applications import now
from penstock.engine.tokens import Scope
from penstock.model import CORES_PER_CORE, Application, State, promised
from penstock.service.problems import OurPaths


class Reason(BaseModel):
    """Why it is in its state."""

    code: str = Field(description="For programs.", examples=["driver_failed"])
    message: str
    fix: str = Field(description="What to do about it.")


class ProcessSize(BaseModel):
    cores: int
    memory_bytes: int = Field(description="Heap, without the overhead.")


class Overhead(BaseModel):
    """The memory of a process beside its heap: `fixed_bytes`, else `factor` of the heap but at least `least_bytes`."""

    factor: float
    least_bytes: int
    fixed_bytes: int | None
    more_bytes: int = Field(description="On top in any case: off-heap memory, and that of Python.")


class ClusterSize(BaseModel):
    driver: ProcessSize
    executor: ProcessSize
    executors: int
    scratch_memory_bytes: int = Field(description="What shuffle and spill may take in memory.")
    driver_overhead: Overhead
    executor_overhead: Overhead


class Specification(BaseModel):
    """What was submitted, with what was left out filled in."""

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


class Cost(BaseModel):
    amount: float
    currency: str


class ApplicationResponse(BaseModel):
    """One submission and what is known of it; what is not known (yet) is null."""

    id: str
    name: str
    state: State
    instance: str
    priority: int
    reason: Reason | None
    submitted_at: datetime
    admitted_at: datetime | None
    started_at: datetime | None = Field(description="When its Spark context came up.")
    ended_at: datetime | None
    not_before: datetime | None = Field(description="The earliest start of the next attempt.")
    attempt: int
    attempts: list[dict[str, Any]] = Field(description="Those before this one.")
    cost: Cost | None
    spark_application_id: str | None
    exit_code: int | None = Field(description="The driver's.")
    summary: dict[str, Any] | None = Field(description="What it did in all, once it has ended.")
    progress: dict[str, Any] | None = Field(description="What it does now, while it runs.")
    ui: str | None = Field(description="POST here answers a link to Spark's own pages, live. Null unless it runs.")
    spec: Specification


class Submitted(ApplicationResponse):
    warnings: list[str] = Field(description="What in its settings likely is not what was meant.")


class Applications(BaseModel):
    items: list[ApplicationResponse]
    next: str | None = Field(description="Give it as `page` to go on; null on the last page.")


class Happened(BaseModel):
    at: datetime
    event: str
    from_state: State | None
    to_state: State
    detail: dict[str, Any]


class History(BaseModel):
    items: list[Happened]


class Delivery(BaseModel):
    """One notice of one change of state to one webhook."""

    id: int
    url: str
    state: State = Field(description="That it tells of.")
    tries: int
    due_at: datetime | None = Field(description="Of the next try; null once it was delivered, or given up.")
    delivered_at: datetime | None
    problem: str | None = Field(description="Why the last try did not succeed.")


class Deliveries(BaseModel):
    items: list[Delivery]


class Quota(BaseModel):
    """The most at once; null for no bound."""

    cores: int | None
    memory_bytes: int | None
    running: int | None
    waiting: int | None


class Use(BaseModel):
    cores: int
    memory_bytes: int
    running: int
    waiting: int


class Instance(BaseModel):
    name: str
    weight: float
    quota: Quota
    used: Use


class WebhookKey(BaseModel):
    key: str = Field(description="`whsec_` and base64")


class Instances(BaseModel):
    items: list[Instance]


class Waiting(BaseModel):
    id: str
    name: str
    instance: str
    priority: int
    position: int = Field(description="In the whole queue, from 1.")
    submitted_at: datetime
    reason: Reason | None = Field(description="What it waits for; null where it starts now.")
    cores: int
    memory_bytes: int


class Amount(BaseModel):
    cores: int
    memory_bytes: int


class Capacity(Amount):
    promisable_cores: int = Field(description="Each may be promised more than once: drivers are idle most of the time.")


class Queue(BaseModel):
    items: list[Waiting]
    capacity: Capacity
    used: Use


class Token(BaseModel):
    id: str
    name: str
    grants: dict[str, Scope] = Field(description="Scope by instance; `*` is all of them.")
    scopes: list[Scope]
    instances: list[str] | None = Field(description="Null for all.")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class Tokens(BaseModel):
    items: list[Token]


class NewToken(Token):
    token: str = Field(description="What its holder needs. Told this once.")


class Uploaded(BaseModel):
    address: str = Field(description="To be named in a submission.", examples=["s3a://lake/penstock/uploads/…/job.py"])


class Caller(BaseModel):
    name: str
    scopes: list[Scope]
    instances: list[str] | None = Field(description="Null for all.")
    grants: dict[str, Scope]
    version: str
    capacity: Amount
    usual_size: ClusterSize = Field(description="Of an application that asks for none.")
    authenticated: bool


class Column(BaseModel):
    name: str
    type: str = Field(description="Spark's name of it.", examples=["decimal(7,2)"])
    partition: bool
    analyzed: bool = Field(description="Whether there are statistics of it.")
    comment: str


class Table(BaseModel):
    database: str
    name: str
    kind: str
    format: str
    location: str = Field(description="Empty for a view.")
    partitions: int | None = Field(description="Null where it has none.")
    rows: int | None = Field(description="As last measured; null where it never was.")
    size_bytes: int | None
    columns: list[Column]
    statistics: str = Field(description="none, table, or columns: what the optimizer can build on.")


class Tables(BaseModel):
    items: list[Table]


class PreviewColumn(BaseModel):
    name: str
    type: str


class Preview(BaseModel):
    columns: list[PreviewColumn]
    rows: list[list[Any]] = Field(description="Values in the order of the columns; what JSON has no form for is text.")
    truncated: bool = Field(description="Whether the table has more.")


class Lake(BaseModel):
    name: str
    default: bool = Field(description="Whether it is meant where none is named.")
    endpoints: list[str]
    bucket: str
    kind: str
    embedded: bool
    running: bool | None = Field(description="Of a store this machine runs itself; null of others.")


class Lakes(BaseModel):
    items: list[Lake]


class Profile(BaseModel):
    name: str
    summary: str


class Profiles(BaseModel):
    items: list[Profile]


class Tier(BaseModel):
    tier: str = Field(examples=["memory", "disk"])
    directory: str
    budget_bytes: int = Field(description="0 where there is no such tier.")
    used_bytes: int
    pages: int
    evictions: int


class CacheUse(BaseModel):
    id: str
    name: str
    hit_rate: float | None = Field(description="How much of what it read came from the cache.")
    read_bytes: int


class Cache(BaseModel):
    tiers: list[Tier]
    applications: list[CacheUse] = Field(description="The last ones.")


class Session(BaseModel):
    id: str = Field(description="Of its application, too.")
    name: str
    state: State
    reason: Reason | None
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    instance: str
    idle_seconds: float = Field(description="It ends when nobody has used it for so long.")
    address: str | None = Field(description="Without its token; null while it does not listen.")
    size: ClusterSize


class Sessions(BaseModel):
    items: list[Session]


class SessionAddress(BaseModel):
    address: str = Field(description="Token included.", examples=["sc://localhost:15002/;token=…"])


class HistoryServer(BaseModel):
    lake: str
    running: bool
    ready: bool = Field(description="Whether it listens.")
    started_at: datetime | None
    ended_at: datetime | None
    idle_ends_at: datetime | None = Field(description="When it ends unless somebody looks.")
    size: dict[str, int]
    url: str = Field(description="POST here answers a link to its pages.")


class PagesLink(BaseModel):
    url: str = Field(description="At the origin of Spark's pages. Opens them once.")
    expires_at: datetime = Field(description="Until when it can be followed.")


class Run(BaseModel):
    id: str
    run: str = Field(description="The same.")
    workload: str
    arm: str
    scale: float | None
    created_at: datetime
    experiment: str | None
    batch: str | None
    ended: bool
    outcome: str = Field(description="Of one without an end: running or interrupted.")
    repetitions: int | None
    repetitions_done: int


class Runs(BaseModel):
    items: list[Run]


class Audit(BaseModel):
    at: datetime
    actor: str = Field(description="The token's name.")
    action: str = Field(examples=["POST /v1/applications"])
    subject: str
    instance: str | None
    outcome: str = Field(examples=["done", "refused", "failed"])
    address: str
    detail: dict[str, Any]


class AuditPage(BaseModel):
    items: list[Audit]
    next: int | None = Field(description="Give it as `page` to go on; null on the last page.")


class Log(BaseModel):
    name: str
    bytes: int | None = Field(description="How long it is now; null where nothing is written yet.")


class Logs(BaseModel):
    items: list[Log]


class Metrics(BaseModel):
    id: str
    state: State
    progress: dict[str, Any] | None
    summary: dict[str, Any] | None
    cost: dict[str, Any] | None


class Results(BaseModel):
    items: list[dict[str, Any]]


class Statements(BaseModel):
    statements: str


_PLACES = (PLACE, "artefacts_problem")
_QUEUED = (State.ACCEPTED, State.WAITING)


class Shown(Protocol):
    """What is looked at here of the service."""

    engine: Engine
    paths: OurPaths


def application(service: Shown, found: Application) -> dict[str, Any]:
    """`progress` and `ui` are null unless it runs; `cost` is that of its clusters until now."""
    seen = service.engine.clusters.observe(found)
    known = found.to_json()
    hidden = service.paths.hidden_in
    return {
        **known,
        "reason": hidden(known["reason"]),
        "attempts": hidden(known["attempts"]),
        "summary": _outside(service, known["summary"]),
        "cost": cost(service, found),
        "priority": found.spec.priority,
        "progress": hidden(dict(seen.progress)) if seen is not None and seen.progress is not None else None,
        "ui": f"/v1/applications/{found.id}/ui" if found.can_be_watched else None,
    }


def _outside(service: Shown, summary: dict[str, Any] | None) -> dict[str, Any] | None:
    """The summary without directories, which the place of artifacts outside the lake, and the reason for it, name."""
    if not summary:
        return summary
    named = {name: service.paths.hidden(str(summary[name])) for name in _PLACES if name in summary}
    return {**summary, **named}


def cost(service: Shown, found: Application) -> dict[str, Any] | None:
    so_far = service.engine.pricing.so_far(found, now())
    return asdict(so_far) if so_far is not None else None


def queue(service: Shown, sees: Callable[[str], bool], instance: str | None = None) -> dict[str, Any]:
    """Who waits in all instances or in one, as far as the caller `sees` their instances; what there is, and its use."""
    waiting = {found.id: found for found in service.engine.list(states=_QUEUED)}
    items = []
    for place in service.engine.queue(instance):
        # What was admitted between the two looks waits no more.
        if (found := waiting.get(place.id)) is None or not sees(place.instance):
            continue
        share = promised(found.spec.size)
        items.append(
            {
                "id": place.id,
                "name": found.spec.name,
                "instance": place.instance,
                "priority": found.spec.priority,
                "position": place.position,
                "submitted_at": found.submitted_at.isoformat(),
                "reason": asdict(place.reason) if place.reason else None,
                "cores": share.cores,
                "memory_bytes": share.memory_bytes,
            }
        )
    capacity = service.engine.backend.capacity()
    used = service.engine.queues.usage().values()
    return {
        "items": items,
        "capacity": {
            "cores": capacity.cores,
            "promisable_cores": int(capacity.cores * CORES_PER_CORE),
            "memory_bytes": capacity.memory_bytes,
        },
        "used": {
            "cores": sum(use.cores for use in used),
            "memory_bytes": sum(use.memory_bytes for use in used),
            "running": sum(use.running for use in used),
            "waiting": sum(use.waiting for use in used),
        },
    }
