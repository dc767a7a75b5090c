"""A body of any dialect as an application of the engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import InvalidInput
from penstock.lake.model import Credentials, Lake
from penstock.model import ApplicationSpec, ClusterSize
from penstock.service.dialects import lakechoice, sizes, stores
from penstock.service.dialects.addresses import application_address, cos_addresses, mounted, translated
from penstock.service.dialects.asked import Asked

SUBMITTER_CLASS = "org.apache.spark.deploy.SparkSubmit"
"""What the older API wants as the main class of a Python file."""

_PATHS = {"spark.jars": "jars", "spark.files": "files", "spark.submit.pyFiles": "python_files"}
# Paths inside the images of the services these bodies were written for.
_FOREIGN_IMAGE = ("/opt/ibm/", "/home/spark/")
_LONGEST_NAME = 200
_AUTOSCALE = "ae.spark.autoscale."
_HISTORY = "ae.spark.history-server."


@dataclass(frozen=True)
class Translation:
    """`keys` are those of the spec's lake that came with the body; None where it brought none."""

    spec: ApplicationSpec
    lake: Lake
    keys: Credentials | None


@dataclass(frozen=True)
class Surroundings:
    """What a body is read against: the instance and its default settings, the lakes known here, of which `home` is the
    instance's own or the default one, and the size for who asks for none."""

    instance: str
    usual: ClusterSize
    home: Lake
    lakes: Sequence[Lake] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


def translate(asked: Asked, around: Surroundings) -> Translation:
    """Raises `InvalidInput` for what cannot run here as it was meant; nothing is dropped that would change a result."""
    said, settings = stores.parted({**sizes.one_name(around.defaults), **sizes.one_name(asked.settings)})
    choice = lakechoice.choose(said, list(cos_addresses(asked)), around.lakes, around.home)
    size, settings = sizes.parted(_without_autoscaling(settings), around.usual)
    settings = {key: translated(value) for key, value in settings.items()}
    name = settings.pop("spark.app.name", None)
    at = mounted(asked.volumes, choice.lake.root)

    def address(path: str) -> str:
        return application_address(at(translated(path)))

    paths = {field: _listed(settings.pop(key, "")) for key, field in _PATHS.items()}
    application = address(asked.application)
    python = application.lower().endswith(".py")
    spec = ApplicationSpec(
        application=application,
        arguments=tuple(at(translated(argument)) for argument in asked.arguments),
        size=size,
        name=(asked.name or name or application.rpartition("/")[2] or application)[:_LONGEST_NAME],
        main_class=None if python and asked.main_class == SUBMITTER_CLASS else asked.main_class,
        lake=choice.lake.name,
        settings=settings,
        environment={key: value for key, value in asked.environment.items() if not value.startswith(_FOREIGN_IMAGE)},
        jars=tuple(address(path) for path in (*asked.jars, *paths["jars"])),
        files=tuple(address(path) for path in (*asked.files, *paths["files"])),
        python_files=tuple(address(path) for path in paths["python_files"]),
        instance=around.instance,
    )
    return Translation(spec, choice.lake, choice.keys)


def _without_autoscaling(settings: Mapping[str, str]) -> dict[str, str]:
    if settings.get(f"{_AUTOSCALE}enable", "false").strip().lower() != "false":
        raise InvalidInput(
            f"{_AUTOSCALE}enable cannot be used",
            why="a cluster here has the size it was asked for, from start to end",
            fix='ask for the size: "ae.spark.executor.count": "4"',
        )
    return {key: value for key, value in settings.items() if not key.startswith((_AUTOSCALE, _HISTORY))}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
