"""Responses of IBM's APIs: schemas for the description, and views of applications and instances. Pure.

A field without which clients manage is left out where it is unknown. A test holds schemas and views together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from pydantic import BaseModel, Field

from penstock.engine.policy.fairness import Instance, InstanceUsage, Quota
from penstock.lake.model import Lake
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, Capacity, State
from penstock.profiles.check import is_secret
from penstock.service.ibm import translation
from penstock.service.ibm.configuration import HomeStore, Kept, LogForwarding

ApplicationState = Literal["accepted", "running", "finished", "failed", "stopped", "auto_terminated", "ops_terminated"]


class SparkRuntime(BaseModel):
    spark_version: str = Field(description="The one there is.", examples=["4.1"])


class SparkApplicationAccepted(BaseModel):
    id: str
    state: ApplicationState


class _Times(BaseModel):
    start_time: datetime | None = None
    end_time: datetime | None = None
    finish_time: datetime | None = Field(None, description="As `end_time`; out of use.")
    auto_termination_time: datetime | None = None


class SparkApplicationState(_Times):
    id: str
    state: ApplicationState


class _Both(_Times):
    id: str
    state: ApplicationState
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


class LogForwardingResponse(BaseModel):
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


_NOT_SHOWN = "****"


def moment(at: datetime | None) -> str | None:
    """`2026-11-21T22:30:00.000Z`."""
    return None if at is None else at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def accepted(application: Application) -> dict[str, Any]:
    """The answer to a submission: by idempotency key it may be one that ran long ago."""
    return {"id": application.id, "state": translation.word(application.state)}


def state(application: Application) -> dict[str, Any]:
    return {"id": application.id, "state": translation.word(application.state), **_times(application)}


def entry(application: Application, *, href: str, spark_version: str, spark_ui: str) -> dict[str, Any]:
    """One of a list."""
    return {
        "id": application.id,
        "href": href,
        "runtime": {"spark_version": spark_version},
        **_of_both(application, spark_ui),
    }


def whole(application: Application, *, spark_version: str, spark_ui: str) -> dict[str, Any]:
    return {
        "application_details": details(application.spec, spark_version),
        "id": application.id,
        **_of_both(application, spark_ui),
        "state_details": translation.details(application.state, application.reason),
    }


def details(spec: ApplicationSpec, spark_version: str) -> dict[str, Any]:
    """What runs, as it was understood: addresses are the lake's, sizes those it has."""
    settings = dict(spec.settings)
    return {
        "application": spec.application,
        "runtime": {"spark_version": spark_version},
        "name": spec.name,
        "arguments": list(spec.arguments),
        **known(
            {
                "class": spec.main_class,
                "jars": ",".join(spec.jars) or None,
                "files": ",".join(spec.files) or None,
                "packages": settings.pop("spark.jars.packages", None),
                "repositories": settings.pop("spark.jars.repositories", None),
                "archives": settings.pop("spark.archives", None),
            }
        ),
        "conf": {
            **_concealed(settings),
            **translation.as_settings(spec.size),
            **known({"spark.submit.pyFiles": ",".join(spec.python_files) or None}),
        },
        "env": dict(spec.environment),
    }


def _of_both(application: Application, spark_ui: str) -> dict[str, str]:
    return {
        **known(
            {
                "spark_application_id": application.spark_application_id,
                "spark_application_name": application.spec.name,
                "spark_ui": spark_ui if application.can_be_watched else None,
                "submission_time": moment(application.submitted_at),
            }
        ),
        "state": translation.word(application.state),
        **_times(application),
    }


def _times(application: Application) -> dict[str, str]:
    ended = moment(application.ended_at)
    return known(
        {
            "start_time": moment(application.started_at),
            "end_time": ended,
            "finish_time": ended,  # out of use, and still what older clients read
            "auto_termination_time": moment(_limit(application)),
        }
    )


def _limit(application: Application) -> datetime | None:
    if application.state is State.AUTO_TERMINATED:
        return application.ended_at
    limit = application.spec.time_limit_seconds
    if application.state.final or application.admitted_at is None or limit is None:
        return None
    return application.admitted_at + timedelta(seconds=limit)


def known(values: Mapping[str, str | None]) -> dict[str, str]:
    """Without what is not."""
    return {key: value for key, value in values.items() if value is not None}


def _concealed(settings: Mapping[str, str]) -> dict[str, str]:
    """Secrets are refused as settings; one recorded before that rule knew it is not shown either."""
    return {key: _NOT_SHOWN if is_secret(key, value) else value for key, value in settings.items()}


ACTIVE = "active"
"""The one state of an instance that exists."""


def instance_state(instance: Instance) -> dict[str, Any]:
    return {"id": instance.name, "state": ACTIVE}


def whole_instance(
    instance: Instance, kept: Kept, lake: Lake | None, *, href: str, spark_version: str
) -> dict[str, Any]:
    """`lake` is its home's; None where it has no home of its own."""
    shown = {
        **instance_state(instance),
        "href": href,
        "default_runtime": {"spark_version": spark_version},
        "default_config": dict(kept.default_configs),
    }
    if kept.home and lake:
        shown["instance_home"] = {"id": kept.home.instance_id, "bucket": lake.bucket, **_store(kept.home, lake)}
    return shown


def home(kept: HomeStore, lake: Lake) -> dict[str, Any]:
    return {"instance_id": kept.instance_id, **_store(kept, lake)}


def consumption(use: InstanceUsage) -> dict[str, str]:
    """What its clusters are promised now, overheads included."""
    return {"cores": str(use.cores), "memory": translation.shown(use.memory_bytes)}


def limits(quota: Quota, capacity: Capacity) -> dict[str, str]:
    """The quota's, or all there is to promise."""
    cores = int(capacity.cores * CORES_PER_CORE)
    return {
        "max_cores": str(min(quota.cores or cores, cores)),
        "max_memory": translation.shown(min(quota.memory_bytes or capacity.memory_bytes, capacity.memory_bytes)),
    }


def log_forwarding(kept: LogForwarding) -> dict[str, Any]:
    return {
        "enabled": kept.enabled,
        "sources": list(kept.sources),
        "tags": list(kept.tags),
        "log_server": {"type": "lake"},
    }


def platform_logging(kept: LogForwarding) -> dict[str, Any]:
    """The same in the words of the operation it replaced."""
    return {"enable": kept.enabled, "components": list(kept.sources), "log_server": {"type": "lake"}}


def _store(kept: HomeStore, lake: Lake) -> dict[str, Any]:
    return {
        "provider": kept.provider,
        "type": kept.type,
        "region": kept.region or lake.region,
        # The embedded lake has none before its first start, HDFS never.
        "endpoint": next(iter(lake.endpoints), ""),
        "hmac_access_key": _NOT_SHOWN,
        "hmac_secret_key": _NOT_SHOWN,
    }
