"""One setting of a profile: the value, and beside it why it is so and who says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.engine.application import ClusterSize
from penstock.units import MIB


def always(_: ClusterSize) -> bool:
    return True


@dataclass(frozen=True)
class Setting:
    """`value` is the text Spark is given, or a function of the cluster's size where the right value follows from it.

    `reason` says what the value does better than Spark's default, `source` who found that: a seed document and its
    section, a page of the Spark or Hadoop documentation, or a measurement. Where `when` is false for a size, the
    setting is left as the layers below have it.
    """

    key: str
    value: str | Callable[[ClusterSize], str]
    reason: str
    source: str
    when: Callable[[ClusterSize], bool] = always

    def value_for(self, size: ClusterSize) -> str:
        return self.value if isinstance(self.value, str) else self.value(size)


@dataclass(frozen=True)
class Layer:
    """Settings that come and go together."""

    name: str
    summary: str
    settings: tuple[Setting, ...]

    @staticmethod
    def of(name: str, values: Mapping[str, str], *, reason: str, source: str) -> Layer:
        """A layer of plain values that share one reason: a lake's, the engine's, the user's."""
        return Layer(name, reason, tuple(Setting(key, value, reason, source) for key, value in values.items()))

    def for_size(self, size: ClusterSize) -> Iterable[tuple[Setting, str]]:
        return ((setting, setting.value_for(size)) for setting in self.settings if setting.when(size))


def mebibytes(amount: int) -> str:
    return f"{amount // MIB}m"
