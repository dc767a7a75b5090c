"""What these APIs' answers look like, for the published description. Answers are not made by these: a test holds them
together. A field without which clients manage is left out where it is unknown."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

State = Literal["accepted", "running", "finished", "failed", "stopped", "auto_terminated", "ops_terminated"]


class SparkRuntime(BaseModel):
    spark_version: str = Field(description="The one there is.", examples=["4.1"])


class SparkApplicationAccepted(BaseModel):
    id: str
    state: State


class _Times(BaseModel):
    start_time: datetime | None = None
    end_time: datetime | None = None
    finish_time: datetime | None = Field(None, description="As `end_time`; out of use.")
    auto_termination_time: datetime | None = None


class SparkApplicationState(_Times):
    id: str
    state: State


class _Both(_Times):
    id: str
    state: State
    spark_application_id: str | None = None
    spark_application_name: str
    spark_ui: str | None = Field(None, description="While it runs: Spark's own pages.")
    submission_time: datetime


class SparkApplicationEntry(_Both):
    href: str
    runtime: SparkRuntime


class PageLink(BaseModel):
    href: str
    start: str | None = None


class SparkApplicationCollection(BaseModel):
    applications: list[SparkApplicationEntry]
    first: PageLink
    next: PageLink | None = None
    previous: PageLink | None = None
    limit: int


class StateDetail(BaseModel):
    type: Literal["user_error", "server_error", "info"]
    code: str
    message: str


class SparkApplicationDetails(BaseModel):
    application: str
    runtime: SparkRuntime
    name: str
    main_class: str | None = Field(None, alias="class")
    arguments: list[str]
    jars: str | None = None
    files: str | None = None
    packages: str | None = None
    repositories: str | None = None
    archives: str | None = None
    conf: dict[str, str]
    env: dict[str, str]


class SparkApplication(_Both):
    application_details: SparkApplicationDetails
    state_details: list[StateDetail]


class SparkJob(_Times):
    id: str
    job_state: str = Field(examples=["RUNNING"])
    state: str = Field(description="As `job_state`.")


class SparkInstanceState(BaseModel):
    id: str
    state: Literal["active"]


class _Store(BaseModel):
    provider: str
    type: str
    region: str
    endpoint: str
    hmac_access_key: str = Field(description="Never shown.", examples=["****"])
    hmac_secret_key: str = Field(description="Never shown.", examples=["****"])


class SparkInstanceHome(_Store):
    instance_id: str | None


class SparkInstanceHomeInside(_Store):
    id: str | None
    bucket: str


class SparkInstance(SparkInstanceState):
    href: str
    default_runtime: SparkRuntime
    default_config: dict[str, str]
    instance_home: SparkInstanceHomeInside | None = None


class SparkConsumption(BaseModel):
    cores: str = Field(examples=["3"])
    memory: str = Field(examples=["12G"])


class SparkLimits(BaseModel):
    max_cores: str = Field(examples=["16"])
    max_memory: str = Field(examples=["64G"])


class LogServer(BaseModel):
    type: Literal["lake"]


class LogForwarding(BaseModel):
    enabled: bool
    sources: list[str]
    tags: list[str]
    log_server: LogServer


class PlatformLogging(BaseModel):
    enable: bool
    components: list[str]
    log_server: LogServer


class SparkHistoryServer(BaseModel):
    state: Literal["started", "stopped"]
    cores: str
    memory: str
    start_time: datetime | None = None
    stop_time: datetime | None = None
    auto_termination_time: datetime | None = None
