"""The configuration of an instance for IBM's APIs, stored in the instance's attributes. Pure.

It has no keys of stores: the home is a lake's name, and the lake refers to its secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from penstock.engine.policy.scheduling import Instance
from penstock.errors import InvalidInput
from penstock.profiles.check import is_secret

_ATTRIBUTE = "analytics_engine"
_MOST_SETTINGS = 500


@dataclass(frozen=True)
class HomeStore:
    """The instance's home: the name of one of this service's lakes, and the client's own description of it."""

    lake: str
    instance_id: str | None = None
    provider: str = "ibm-cos"
    type: str = "objectstore"
    region: str | None = None


@dataclass(frozen=True)
class LogForwarding:
    enabled: bool = False
    sources: tuple[str, ...] = ("spark-driver",)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstanceConfiguration:
    default_configs: Mapping[str, str] = field(default_factory=dict)
    home: HomeStore | None = None
    log_forwarding: LogForwarding = LogForwarding()


def read(instance: Instance) -> InstanceConfiguration:
    value = instance.attributes.get(_ATTRIBUTE) or {}
    home, logs = value.get("home"), value.get("log_forwarding")
    return InstanceConfiguration(
        default_configs=dict(value.get("default_configs") or {}),
        home=HomeStore(**home) if home else None,
        log_forwarding=LogForwarding(enabled=logs["enabled"], sources=tuple(logs["sources"]), tags=tuple(logs["tags"]))
        if logs
        else LogForwarding(),
    )


def instances_by_home(instances: Iterable[Instance]) -> dict[str, set[str]]:
    """Return the instances of every lake that is a home, by the lake's name."""
    found: dict[str, set[str]] = {}
    for instance in instances:
        if home := read(instance).home:
            found.setdefault(home.lake, set()).add(instance.name)
    return found


def with_configuration(instance: Instance, configuration: InstanceConfiguration) -> Instance:
    """Return the instance with this configuration; other clients' attributes stay."""
    return replace(instance, attributes={**instance.attributes, _ATTRIBUTE: asdict(configuration)})


def change_configuration(
    instance: Instance, change: Callable[[InstanceConfiguration], InstanceConfiguration]
) -> Instance:
    return with_configuration(instance, change(read(instance)))


def checked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the default settings after validation. Raises `InvalidInput`."""
    if len(settings) > _MOST_SETTINGS:
        raise InvalidInput("There are too many default settings", why=f"the limit is {_MOST_SETTINGS} per instance")
    for key, value in settings.items():
        if is_secret(key, value):
            raise InvalidInput(
                f"{key} is a secret, or contains one",
                why="every reader of an instance can see its default settings",
                fix="put a store's keys into a lake: penstock lake add, or PUT …/instance_home",
            )
    return dict(settings)


def merged_configuration(settings: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings after a merge patch (RFC 7396) of one level: null removes a setting."""
    both: dict[str, str | None] = {**settings, **changes}
    return {key: value for key, value in both.items() if value is not None}
