"""Responses of IBM's APIs: Pydantic models, and their construction from the engine's values.

Unknown optional values stay unset, and `DialectRoute` leaves unset fields out, as clients expect.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainSerializer, WithJsonSchema

from penstock.engine.interactive.history import SIZE, HistoryStatus
from penstock.engine.policy.scheduling import Instance, InstanceUsage, Quota
from penstock.lake.model import Lake
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, Capacity, State
from penstock.profiles.check import is_secret
from penstock.service.ibm import translation
from penstock.service.ibm.configuration import HomeStore, InstanceConfiguration, LogForwarding
from penstock.service.ibm.translation import ApplicationState


def moment(at: datetime) -> str:
    """Format a time as IBM does: `2026-11-21T22:30:00.000Z`."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[
    datetime,
    PlainSerializer(moment, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class SparkRuntime(BaseModel):
    spark_version: str = Field(description="The version of the service's Spark.", examples=["4.1"])


class SparkApplicationAccepted(BaseModel):
    id: str
    state: ApplicationState


class _Times(BaseModel):
    start_time: Moment | None = None
    end_time: Moment | None = None
    finish_time: Moment | None = Field(None, description="As `end_time`; deprecated.")
    auto_termination_time: Moment | None = None


class SparkApplicationState(_Times):
    id: str
    state: ApplicationState


class _ApplicationFields(_Times):
    id: str
    state: ApplicationState
    spark_application_id: str | None = None
    spark_application_name: str
    spark_ui: str | None = Field(None, description="Spark's own pages, while the application runs.")
    submission_time: Moment


class SparkApplicationEntry(_ApplicationFields):
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


class SparkApplication(_ApplicationFields):
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
    hmac_access_key: str = Field(description="Always masked.", examples=["****"])
    hmac_secret_key: str = Field(description="Always masked.", examples=["****"])


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
    start_time: Moment | None = None
    stop_time: Moment | None = None
    auto_termination_time: Moment | None = None


_NOT_SHOWN = "****"


def accepted_application(application: Application) -> SparkApplicationAccepted:
    """Return the response to a submission: with an idempotency key the application may have run long ago."""
    return SparkApplicationAccepted(id=application.id, state=translation.ibm_state(application.state))


def application_state(application: Application) -> SparkApplicationState:
    return SparkApplicationState(
        id=application.id, state=translation.ibm_state(application.state), **_times(application)
    )


def job(application: Application) -> SparkJob:
    word = translation.ibm_state(application.state).upper()
    return SparkJob(id=application.id, job_state=word, state=word, **_times(application))


def application_entry(
    application: Application, *, href: str, spark_version: str, spark_ui: str
) -> SparkApplicationEntry:
    """Return the application's item in a list."""
    return SparkApplicationEntry(
        href=href, runtime=SparkRuntime(spark_version=spark_version), **_application_fields(application, spark_ui)
    )


def application_response(application: Application, *, spark_version: str, spark_ui: str) -> SparkApplication:
    return SparkApplication(
        application_details=details_response(application.spec, spark_version),
        state_details=[
            StateDetail.model_validate(detail)
            for detail in translation.state_details(application.state, application.reason)
        ],
        **_application_fields(application, spark_ui),
    )


def details_response(spec: ApplicationSpec, spark_version: str) -> SparkApplicationDetails:
    """Return the translated submission, with the lake's addresses and the actual sizes."""
    settings = dict(spec.settings)
    optional = {
        "class": spec.main_class,
        "jars": ",".join(spec.jars) or None,
        "files": ",".join(spec.files) or None,
        "packages": settings.pop("spark.jars.packages", None),
        "repositories": settings.pop("spark.jars.repositories", None),
        "archives": settings.pop("spark.archives", None),
    }
    return SparkApplicationDetails(
        application=spec.application,
        runtime=SparkRuntime(spark_version=spark_version),
        name=spec.name,
        arguments=list(spec.arguments),
        conf={
            **_concealed(settings),
            **translation.size_settings(spec.size),
            **_known({"spark.submit.pyFiles": ",".join(spec.python_files) or None}),
        },
        env=dict(spec.environment),
        **_known(optional),
    )


def _application_fields(application: Application, spark_ui: str) -> dict[str, Any]:
    optional = {
        "spark_application_id": application.spark_application_id,
        "spark_ui": spark_ui if application.can_be_watched else None,
    }
    return {
        "id": application.id,
        "state": translation.ibm_state(application.state),
        "spark_application_name": application.spec.name,
        "submission_time": application.submitted_at,
        **_known(optional),
        **_times(application),
    }


def _times(application: Application) -> dict[str, Any]:
    return _known(
        {
            "start_time": application.started_at,
            "end_time": application.ended_at,
            "finish_time": application.ended_at,  # deprecated, but older clients read it
            "auto_termination_time": _limit(application),
        }
    )


def _limit(application: Application) -> datetime | None:
    if application.state is State.AUTO_TERMINATED:
        return application.ended_at
    limit = application.spec.time_limit_seconds
    if application.state.final or application.admitted_at is None or limit is None:
        return None
    return application.admitted_at + timedelta(seconds=limit)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _concealed(settings: Mapping[str, str]) -> dict[str, str]:
    """Mask secrets: settings with secrets are refused now, but older records may have some."""
    return {key: _NOT_SHOWN if is_secret(key, value) else value for key, value in settings.items()}


def instance_state(instance: Instance) -> SparkInstanceState:
    return SparkInstanceState(id=instance.name, state="active")


def instance_response(
    instance: Instance, stored: InstanceConfiguration, lake: Lake | None, *, href: str, spark_version: str
) -> SparkInstance:
    """Return all of an instance; `lake` is its home's, None where it has no home of its own."""
    optional: dict[str, Any] = {}
    if stored.home and lake:
        optional["instance_home"] = SparkInstanceHomeInside(
            id=stored.home.instance_id, bucket=lake.bucket, **_store(stored.home, lake)
        )
    return SparkInstance(
        **dict(instance_state(instance)),
        href=href,
        default_runtime=SparkRuntime(spark_version=spark_version),
        default_config=dict(stored.default_configs),
        **optional,
    )


def home_response(stored: HomeStore, lake: Lake) -> SparkInstanceHome:
    return SparkInstanceHome(instance_id=stored.instance_id, **_store(stored, lake))


def consumption(use: InstanceUsage) -> SparkConsumption:
    """Return the cores and memory promised to the instance's clusters, including overheads."""
    return SparkConsumption(cores=str(use.cores), memory=translation.format_memory(use.memory_bytes))


def limits(quota: Quota, capacity: Capacity) -> SparkLimits:
    """Return the smaller of quota and capacity."""
    cores = int(capacity.cores * CORES_PER_CORE)
    memory = min(quota.memory_bytes or capacity.memory_bytes, capacity.memory_bytes)
    return SparkLimits(max_cores=str(min(quota.cores or cores, cores)), max_memory=translation.format_memory(memory))


def log_forwarding(stored: LogForwarding) -> LogForwardingResponse:
    return LogForwardingResponse(
        enabled=stored.enabled,
        sources=list(stored.sources),
        tags=list(stored.tags),
        log_server=LogServer(type="lake"),
    )


def platform_logging(stored: LogForwarding) -> PlatformLogging:
    """Return the log forwarding in the form of the operation that it replaced."""
    return PlatformLogging(enable=stored.enabled, components=list(stored.sources), log_server=LogServer(type="lake"))


def history_server(status: HistoryStatus) -> SparkHistoryServer:
    optional = {
        "start_time": status.started_at,
        "stop_time": status.ended_at,
        "auto_termination_time": status.idle_ends_at,
    }
    return SparkHistoryServer(
        state="started" if status.running else "stopped",
        cores=str(SIZE.cores),
        memory=translation.format_memory(SIZE.memory_bytes),
        **_known(optional),
    )


def _store(stored: HomeStore, lake: Lake) -> dict[str, str]:
    return {
        "provider": stored.provider,
        "type": stored.type,
        "region": stored.region or lake.region,
        # The embedded lake has no endpoint before its first start, and HDFS never has one.
        "endpoint": next(iter(lake.endpoints), ""),
        "hmac_access_key": _NOT_SHOWN,
        "hmac_secret_key": _NOT_SHOWN,
    }
