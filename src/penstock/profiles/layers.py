"""Settings, their layers, and the resolution of layers into final settings. Pure: the same input, the same output.

The order is base < store < skipping < workload < user. A later layer's value replaces an earlier one's, except where
Spark keeps a list under one key: there every layer adds to it, since a user who asks for one more JVM option or
listener does not ask for ours to go. JVM options are merged so that no JVM refuses a pair of them.

Memory overheads follow Spark's own rules (`BasicDriverFeatureStep`, `BasicExecutorFeatureStep` and `ResourceProfile` of
4.1). They are computed once, when a submission is checked: queue, pods and Spark's settings then have the same ones.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, Overhead
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


_KEYS = re.compile(r"spark\.(driver|executor)\.(extra|default)JavaOptions")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_FLAG = re.compile(r"-XX:[+-]?(\w+)")
_PROPERTY = re.compile(r"-D([^=]+)")
_SIZE = re.compile(r"-X(mx|ms|mn|ss)")
_UNCHECKED = re.compile(r"-Dspark\.|-XX:(Flags|VMOptionsFile)=|(?<!\S)@")

OPTION_FILES = ("@", "-XX:Flags=", "-XX:VMOptionsFile=")
"""How options begin that have Java read more options from a file, which nobody has checked."""

VARIABLES = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"})
"""Environment variables from which Java takes options by itself."""


def holds_options(key: str) -> bool:
    return _KEYS.fullmatch(key) is not None


def carries_settings(variable: str, value: str) -> bool:
    """Whether Java would read a Spark setting, or more options from a file, from that environment variable."""
    # Java leaves quotes out wherever they stand: -D'spark.x'=1 is one of Spark's.
    return variable in VARIABLES and _UNCHECKED.search(re.sub("[\"'\\\\]", "", value)) is not None


def split(key: str, options: str) -> list[str]:
    """The options as the shell, and Spark, would take them apart. Raises `InvalidInput` for an open quote."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InvalidInput(
            f"{key} cannot be taken apart into JVM options",
            why=str(error).lower(),
            fix="close the quote, or put a backslash before a quote that is part of a value",
        ) from error


def join(key: str, layers: Sequence[str]) -> str:
    """All options in order; one that is given again is kept at its last place only.

    A JVM takes the last of two values of a flag, but refuses to start with two garbage collectors: so choosing one
    drops the choice of the layers below.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for options in layers:
        given = list(_with_arguments(split(key, options)))
        if any(_chooses_collector(option) for option in given):
            kept = {name: option for name, option in kept.items() if not _chooses_collector(option)}
        for option in given:
            name = _identity(option)
            kept.pop(name, None)
            kept[name] = option
    return shlex.join(word for option in kept.values() for word in option)


def _with_arguments(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Options such as `--add-opens a/b=C`, whose value is a word of its own, stay together."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and option:
            yield tuple(option)
            option = []
        option.append(word)
    if option:
        yield tuple(option)


def _chooses_collector(option: tuple[str, ...]) -> bool:
    return _COLLECTOR.fullmatch(option[0]) is not None


def _identity(option: tuple[str, ...]) -> str:
    """What the option is about; two options with one identity cannot both hold."""
    for pattern in (_FLAG, _PROPERTY, _SIZE):
        if match := pattern.match(option[0]):
            return f"{pattern.pattern} {match[1]}"
    return shlex.join(option)


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
    return key in _LISTS or holds_options(key)


def _merged(key: str, said: list[Origin]) -> str:
    values = [origin.value for origin in said]
    if holds_options(key):
        return join(key, values)
    if key in _LISTS:
        items = (item.strip() for value in values for item in value.split(","))
        return ",".join(dict.fromkeys(item for item in items if item))
    return values[-1]


FACTOR = Overhead.factor
"""The part of the heap where neither the user nor the cluster's file says another."""

PYTHON_IN_PODS = 0.40
"""The same for a Python application whose pods Kubernetes holds to their memory: Python's is beside the heap."""

FIXED = ("spark.driver.memoryOverhead", "spark.executor.memoryOverhead")
LEAST = ("spark.driver.minMemoryOverhead", "spark.executor.minMemoryOverhead")
FACTORS = ("spark.driver.memoryOverheadFactor", "spark.executor.memoryOverheadFactor")

_PYTHON = "spark.executor.pyspark.memory"


def with_overheads(size: ClusterSize, settings: Mapping[str, str], *, factor: float, python: bool) -> ClusterSize:
    """The size with the overheads that the final settings ask for; `factor` is for whom they name none."""
    driver, executor = (
        Overhead(
            factor=_number(settings.get(factor_key), factor),
            least_bytes=_bytes(settings.get(least), Overhead.least_bytes),
            fixed_bytes=_bytes(settings[fixed], 0) if fixed in settings else None,
        )
        for factor_key, least, fixed in zip(FACTORS, LEAST, FIXED, strict=True)
    )
    more = off_heap_bytes(settings) + (_bytes(settings.get(_PYTHON), 0) if python else 0)
    return replace(size, driver_overhead=driver, executor_overhead=replace(executor, more_bytes=more))


def off_heap_bytes(settings: Mapping[str, str]) -> int:
    """The bytes that Spark itself adds to an executor's pod."""
    if not units.parse_flag(settings.get("spark.memory.offHeap.enabled", "")):
        return 0
    return _whole_mebibytes(units.parse_size(settings.get("spark.memory.offHeap.size", "0")))


def _bytes(text: str | None, otherwise: int) -> int:
    return otherwise if text is None else _whole_mebibytes(units.parse_size(text, unit="m"))


def _whole_mebibytes(count: int | None) -> int:
    return (count or 0) >> 20 << 20


def _number(text: str | None, otherwise: float) -> float:
    found = None if text is None else units.parse_number(text)
    return otherwise if found is None else found
