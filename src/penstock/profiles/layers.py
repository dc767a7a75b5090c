"""Layers on top of each other: base < store < skipping < workload < user. Pure: the same input, the same output.

A later layer's value replaces an earlier one's, except where Spark keeps a list under one key: there every layer adds
to it, since a user who asks for one more JVM option or listener does not ask for ours to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.engine.application import ClusterSize
from penstock.profiles import javaoptions
from penstock.profiles.setting import Layer

_LISTS = frozenset(
    {
        "spark.extraListeners",
        "spark.plugins",
        "spark.sql.extensions",
        "spark.sql.queryExecutionListeners",
        "spark.hadoop.fs.s3a.audit.execution.interceptors",
    }
)


@dataclass(frozen=True)
class Origin:
    """What one layer says about a key."""

    layer: str
    value: str
    reason: str
    source: str


@dataclass(frozen=True)
class ResolvedSetting:
    """`origins` are all layers that set the key, lowest first. Where they do not add up, the last one's value holds."""

    key: str
    value: str
    origins: tuple[Origin, ...]

    @property
    def origin(self) -> Origin:
        """The layer that had the last word."""
        return self.origins[-1]

    @property
    def overrode(self) -> tuple[Origin, ...]:
        """The layers whose value is gone."""
        return () if _adds_up(self.key) else self.origins[:-1]


@dataclass(frozen=True)
class Resolved:
    """The final settings, by key in alphabetical order."""

    settings: tuple[ResolvedSetting, ...]

    def __iter__(self) -> Iterator[ResolvedSetting]:
        return iter(self.settings)

    def values(self) -> dict[str, str]:
        return {setting.key: setting.value for setting in self.settings}


def user_layer(settings: Mapping[str, str]) -> Layer:
    return Layer.of("user", settings, reason="asked for", source="--conf")


def resolve(layers: Iterable[Layer], size: ClusterSize, user: Mapping[str, str] | None = None) -> Resolved:
    """The settings of a cluster of this size, each with where it came from.

    `layers` go from the weakest to the strongest; `user` is stronger than all. Raises `InvalidInput` where JVM options
    cannot be taken apart (an open quote).
    """
    origins: dict[str, list[Origin]] = {}
    for layer in (*layers, user_layer(user or {})):
        for setting, value in layer.for_size(size):
            origins.setdefault(setting.key, []).append(Origin(layer.name, value, setting.reason, setting.source))
    return Resolved(
        tuple(ResolvedSetting(key, _merged(key, said), tuple(said)) for key, said in sorted(origins.items()))
    )


def _adds_up(key: str) -> bool:
    return key in _LISTS or javaoptions.holds_options(key)


def _merged(key: str, said: list[Origin]) -> str:
    values = [origin.value for origin in said]
    if javaoptions.holds_options(key):
        return javaoptions.join(key, values)
    if key in _LISTS:
        items = (item.strip() for value in values for item in value.split(","))
        return ",".join(dict.fromkeys(item for item in items if item))
    return values[-1]
