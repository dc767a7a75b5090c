"""Request bodies of the native API, bounded in every part. Defaults are the CLI's."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from penstock import units
from penstock.engine.interactive.sessions import IDLE_SECONDS, SessionProtocol, SessionRequest
from penstock.engine.tokens import Scope
from penstock.model import SPARK_ENGINE, SPARK_INTERNAL, ApplicationSpec, ClusterSize, ProcessSize

_MOST_PARTS = 1000


def _bytes(value: Any) -> Any:
    """Parse `"2g"` or `"512m"` as the CLI does: in text a bare number is MiB; a JSON number is bytes."""
    if not isinstance(value, str):
        return value
    found = units.parse_size(value, unit="m")
    if found is None:
        raise ValueError("should be a size such as “2g”, or a number of bytes")
    return found


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = units.parse_seconds(value)
    if found is None:
        raise ValueError("should be a time such as “15m”, or a number of seconds")
    return found


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("should have no zero byte")
    return text


Text = Annotated[str, Field(max_length=64 << 10), AfterValidator(_storable)]
Path = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_storable)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=0, le=1 << 50)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=10 * 365 * 86400.0)]


class _Body(BaseModel):
    # A misspelt field is an error, and no response repeats the input.
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ProcessSizeBody(_Body):
    cores: int | None = Field(default=None, ge=1, le=4096)
    memory_bytes: Bytes | None = Field(
        default=None,
        validation_alias=AliasChoices("memory_bytes", "memory"),
        description='Heap, in bytes or as text such as "2g". `memory` is accepted, too.',
        examples=["2g"],
    )

    def with_defaults(self, usual: ProcessSize) -> ProcessSize:
        return ProcessSize(
            usual.cores if self.cores is None else self.cores,
            usual.memory_bytes if self.memory_bytes is None else self.memory_bytes,
        )


class SizeBody(_Body):
    driver: ProcessSizeBody = ProcessSizeBody()
    executor: ProcessSizeBody = ProcessSizeBody()
    executors: int | None = Field(default=None, ge=0, le=100_000, description="0 for an engine of one process.")
    scratch_memory_bytes: Bytes | None = Field(
        default=None, description="Ignored: it follows from the profile and the settings.", exclude=True
    )

    driver_overhead: dict[str, Any] | None = Field(default=None, description="Ignored, likewise.", exclude=True)
    executor_overhead: dict[str, Any] | None = Field(default=None, description="Ignored, likewise.", exclude=True)

    def with_defaults(self, usual: ClusterSize) -> ClusterSize:
        return ClusterSize(
            self.driver.with_defaults(usual.driver),
            self.executor.with_defaults(usual.executor),
            usual.executors if self.executors is None else self.executors,
        )


ChosenInstance = Annotated[
    Name | None, Field(description="The queue; by default the token's only instance, else `default`.")
]


class ApplicationBody(_Body):
    """An application, and the size of its cluster."""

    application: Path = Field(
        description="A Python file or a jar in the lake, or Penstock's own program for an engine.",
        examples=["s3a://lake/jobs/pi.py"],
    )
    name: Name | None = None
    size: SizeBody = SizeBody()
    arguments: list[Text] = Field(default_factory=list, max_length=_MOST_PARTS)
    main_class: Name | None = None
    profile: Name = "default"
    lake: Name | None = None
    settings: dict[Name, Text] = Field(default_factory=dict, max_length=_MOST_PARTS)
    environment: dict[Name, Text] = Field(default_factory=dict, max_length=_MOST_PARTS)
    jars: list[Path] = Field(default_factory=list, max_length=_MOST_PARTS)
    files: list[Path] = Field(default_factory=list, max_length=_MOST_PARTS)
    python_files: list[Path] = Field(default_factory=list, max_length=_MOST_PARTS)
    tags: list[Name] = Field(default_factory=list, max_length=100)
    time_limit_seconds: Seconds | None = Field(default=None, description='Seconds, or text such as "2h".')
    instance: ChosenInstance = None
    priority: int = Field(default=0, ge=-100, le=100)
    retries: int = Field(default=0, ge=0, le=10, description="Retries after infrastructure failures.")
    webhooks: list[Path] = Field(default_factory=list, max_length=10)
    engine: Name = Field(default=SPARK_ENGINE, description="The engine of a Python file: `spark` or `sail`.")

    def spec(self, usual: ClusterSize, usual_instance: str, *, idempotency_key: str | None) -> ApplicationSpec:
        """Return the specification; `usual` has the sizes that the body omits, `usual_instance` replaces none."""
        name = self.name or (self.application.rstrip("/").rpartition("/")[2] or SPARK_INTERNAL)
        return ApplicationSpec(
            application=self.application,
            size=self.size.with_defaults(usual),
            name=name[:200],
            arguments=tuple(self.arguments),
            main_class=self.main_class,
            profile=self.profile,
            lake=self.lake,
            settings=self.settings,
            environment=self.environment,
            jars=tuple(self.jars),
            files=tuple(self.files),
            python_files=tuple(self.python_files),
            tags=tuple(self.tags),
            time_limit_seconds=self.time_limit_seconds,
            idempotency_key=idempotency_key,
            instance=self.instance or usual_instance,
            priority=self.priority,
            retries=self.retries,
            webhooks=tuple(self.webhooks),
            engine=self.engine,
        )


class TokenBody(_Body):
    """A new token. Each scope includes the smaller ones, so the largest counts; `instances` is null for all."""

    name: Name
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    instances: list[Name] | None = Field(default=None, min_length=1, max_length=_MOST_PARTS)
    expires_in: Seconds | None = Field(default=None, description='Seconds, or text such as "30d"; null for never.')


class QuotaBody(_Body):
    """The most at one time; null for no limit. Cores and memory include drivers and overheads."""

    cores: int | None = Field(default=None, ge=1, le=1 << 30)
    memory_bytes: Annotated[Bytes, Field(ge=1)] | None = None
    running: int | None = Field(default=None, ge=1, le=1 << 30)
    waiting: int | None = Field(default=None, ge=0, le=1 << 30)


class InstanceBody(_Body):
    weight: float = Field(default=1.0, gt=0, le=1000, description="Its share relative to the others' under contention.")
    quota: QuotaBody = QuotaBody()
    engine: Name | None = Field(
        default=None, description="The engine of SQL statements that name none, or `auto`. Left out, it stays."
    )


class SessionBody(_Body):
    """A session. Defaults are those of `penstock session start`."""

    name: Name = "session"
    protocol: SessionProtocol = Field(
        default=SessionProtocol.CONNECT, description="`connect` for Spark Connect, `jdbc` for HiveServer2's protocol."
    )
    size: SizeBody = SizeBody()
    idle_seconds: Seconds = Field(
        default=IDLE_SECONDS,
        description='It ends after so long without use: seconds, or text such as "30m".',
    )
    profile: Name = "sql"
    lake: Name | None = None
    settings: dict[Name, Text] = Field(default_factory=dict, max_length=_MOST_PARTS)
    tags: list[Name] = Field(default_factory=list, max_length=100)
    time_limit_seconds: Seconds | None = Field(default=None, description='Seconds, or text such as "8h".')
    instance: ChosenInstance = None
    priority: int = Field(default=0, ge=-100, le=100)

    def request(self, usual: ClusterSize, usual_instance: str) -> SessionRequest:
        """Return the engine's request; `usual` has the sizes that the body omits, `usual_instance` replaces none."""
        return SessionRequest(
            size=self.size.with_defaults(usual),
            name=self.name,
            protocol=self.protocol,
            idle_seconds=self.idle_seconds,
            profile=self.profile,
            lake=self.lake,
            settings=self.settings,
            tags=tuple(self.tags),
            time_limit_seconds=self.time_limit_seconds,
            instance=self.instance or usual_instance,
            priority=self.priority,
        )
