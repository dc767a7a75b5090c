"""Request bodies as JSON: IBM's `application_details` (v3, v4, and its first on-premises form) and the older job.

Unknown fields are refused: an ignored one could be a size or a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from penstock.service import requests

EXECUTORS = "spark.executor.instances"


@dataclass(frozen=True)
class Volume:
    """A named volume of files, which the application sees below `mount_path`; `source` is a directory inside it."""

    name: str
    mount_path: str
    source: str = ""


@dataclass(frozen=True)
class ParsedRequest:
    """A submission in any of IBM's forms.

    `settings` include the sizes, under Spark's own names. They may also have a store's keys, so `repr` leaves them out.
    """

    application: str
    arguments: tuple[str, ...] = ()
    main_class: str | None = None
    name: str | None = None
    jars: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    volumes: tuple[Volume, ...] = ()


def _as_text(value: Any) -> Any:
    """Return numbers and booleans as text: clients write both `"spark.driver.cores": 1` and `"1"`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


Text = Annotated[requests.Text, BeforeValidator(_as_text, json_schema_input_type=str | int | float | bool)]
Settings = Annotated[dict[Text, Text], Field(max_length=1000)]
Several = Annotated[list[Text], Field(max_length=10_000)]
Paths = Annotated[Text | Several, Field(description="A path, comma-separated paths, or a list.")]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, populate_by_name=True)


class Runtime(Body):
    spark_version: Text | None = None


class ApplicationDetails(Body):
    """An application. The options with hyphens are those of the first on-premises release (`"num-executors": 2`)."""

    application: Text = Field(examples=["s3a://lake/applications/report.py"])
    runtime: Runtime | None = None
    jars: Paths | None = None
    packages: Paths | None = None
    repositories: Paths | None = None
    files: Paths | None = None
    archives: Paths | None = None
    name: Text | None = None
    main_class: Text | None = Field(None, alias="class")
    arguments: Several = Field([], validation_alias=AliasChoices("arguments", "application_arguments"))
    conf: Settings = {}
    env: Settings = {}
    spark_version: Text | None = None
    driver_cores: Text | None = Field(None, alias="driver-cores")
    driver_memory: Text | None = Field(None, alias="driver-memory")
    driver_java_options: Text | None = Field(None, alias="driver-java-options")
    driver_library_path: Text | None = Field(None, alias="driver-library-path")
    driver_class_path: Text | None = Field(None, alias="driver-class-path")
    executor_cores: Text | None = Field(None, alias="executor-cores")
    executor_memory: Text | None = Field(None, alias="executor-memory")
    num_executors: Text | None = Field(None, alias="num-executors")

    def submission(self, volumes: Iterable[NamedVolume] = ()) -> ParsedRequest:
        options = {
            "spark.jars.packages": _joined(self.packages),
            "spark.jars.repositories": _joined(self.repositories),
            "spark.archives": _joined(self.archives),
            "spark.driver.cores": self.driver_cores,
            "spark.driver.memory": self.driver_memory,
            "spark.driver.extraJavaOptions": self.driver_java_options,
            "spark.driver.extraLibraryPath": self.driver_library_path,
            "spark.driver.extraClassPath": self.driver_class_path,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.memory": self.executor_memory,
            EXECUTORS: self.num_executors,
        }
        return ParsedRequest(
            application=self.application,
            arguments=tuple(self.arguments),
            main_class=self.main_class,
            name=self.name,
            jars=_paths(self.jars),
            files=_paths(self.files),
            settings=_with(options, self.conf),
            environment=self.env,
            volumes=tuple(volume.volume() for volume in volumes),
        )


class NamedVolume(Body):
    name: Text = Field(validation_alias=AliasChoices("name", "volume_name"))
    mount_path: Text
    source_sub_path: Text = Field("", validation_alias=AliasChoices("source_sub_path", "source_path"))
    read_only: bool = False

    def volume(self) -> Volume:
        return Volume(self.name, self.mount_path, self.source_sub_path)


class ApplicationRequest(Body):
    """A submission to `…/spark_applications` (v3, v4). `template_id` is accepted and ignored."""

    application_details: ApplicationDetails
    template_id: Text | None = None
    volumes: Annotated[list[NamedVolume], Field(max_length=100)] = []

    def submission(self) -> ParsedRequest:
        return self.application_details.submission(self.volumes)


class Worker(Body):
    cpu: Text | None = None
    memory: Text | None = None


class Size(Body):
    num_workers: Text | None = None
    worker_size: Worker = Worker()
    driver_size: Worker = Worker()


class JobEngine(Body):
    type: Text = "spark"
    template_id: Text | None = None
    conf: Settings = {}
    env: Settings = {}
    size: Size = Size()
    volumes: Annotated[list[NamedVolume], Field(max_length=100)] = []


class JobRequest(Body):
    """A submission to the older jobs API. `application_jar` is an alias, and the name is `spark.app.name` in `conf`."""

    engine: JobEngine = JobEngine()
    application: Text = Field(validation_alias=AliasChoices("application", "application_jar"))
    application_arguments: Several = []
    main_class: Text | None = None

    def submission(self) -> ParsedRequest:
        size = self.engine.size
        options = {
            EXECUTORS: size.num_workers,
            "spark.executor.cores": size.worker_size.cpu,
            "spark.executor.memory": size.worker_size.memory,
            "spark.driver.cores": size.driver_size.cpu,
            "spark.driver.memory": size.driver_size.memory,
        }
        return ParsedRequest(
            application=self.application,
            arguments=tuple(self.application_arguments),
            main_class=self.main_class,
            settings=_with(options, self.engine.conf),
            environment=self.engine.env,
            volumes=tuple(volume.volume() for volume in self.engine.volumes),
        )


def _with(options: Mapping[str, str | None], conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the options and of `conf`, which takes precedence."""
    return {**{key: value for key, value in options.items() if value is not None}, **conf}


def _paths(value: str | list[str] | None) -> tuple[str, ...]:
    texts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(text.strip() for text in texts if text.strip())


def _joined(value: str | list[str] | None) -> str | None:
    return ",".join(_paths(value)) or None
