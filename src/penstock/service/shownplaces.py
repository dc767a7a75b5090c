"""What other answers look like: tables, lakes, the cache, sessions, history, the lab, the audit, logs.

As `shown.py`, for the published description alone; a test holds them to what is answered.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from penstock.model import State
from penstock.service.shown import ClusterSize, Reason


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
