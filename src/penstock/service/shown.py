"""What answers look like, for the published description. Answers are not made by these: a test holds them together."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from penstock.engine.tokens import Scope
from penstock.model import State


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


class Application(BaseModel):
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


class Submitted(Application):
    warnings: list[str] = Field(description="What in its settings likely is not what was meant.")


class Applications(BaseModel):
    items: list[Application]
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
