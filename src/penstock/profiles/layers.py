"""Settings, their layers, and the resolution of layers into final settings. Pure.

The order is base < store < skipping < workload < user. A later layer's value replaces an earlier one's, except for keys
whose value is a list: there every layer adds to it, so that a user's JVM option or listener does not remove those of
Penstock. JVM options are merged so that no JVM rejects a pair of them.

Memory overheads follow Spark's own rules (`BasicDriverFeatureStep`, `BasicExecutorFeatureStep` and `ResourceProfile` of
4.1). They are computed once, when a submission is checked: queue, pods and Spark's settings then have the same figures.
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
    """A Spark setting with its reason.

    `value` is Spark's text, or a function of the cluster's size. `reason` is the advantage over Spark's default, and
    `source` its evidence: a published paper and its section, a page of the Spark or Hadoop documentation, or a
    measurement. Where `when` is false for a size, the value of the layers below applies.
    """

    key: str
    value: str | Callable[[ClusterSize], str]
    reason: str
    source: str
    applies: Callable[[ClusterSize], bool] = always

    def value_for(self, size: ClusterSize) -> str:
        return self.value if isinstance(self.value, str) else self.value(size)


@dataclass(frozen=True)
class Layer:
    """Settings that are applied together, under one name."""

    name: str
    summary: str
    settings: tuple[Setting, ...]

    @staticmethod
    def of(name: str, values: Mapping[str, str], *, reason: str, source: str) -> Layer:
        """Return a layer of plain values that share one reason, such as those of a lake, the engine or the user."""
        return Layer(name, reason, tuple(Setting(key, value, reason, source) for key, value in values.items()))

    def for_size(self, size: ClusterSize) -> Iterable[tuple[Setting, str]]:
        return ((setting, setting.value_for(size)) for setting in self.settings if setting.applies(size))


def mebibytes(amount: int) -> str:
    return f"{amount // MIB}m"


_KEYS = re.compile(r"spark\.(driver|executor)\.(extra|default)JavaOptions")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_FLAG = re.compile(r"-XX:[+-]?(\w+)")
_PROPERTY = re.compile(r"-D([^=]+)")
_SIZE = re.compile(r"-X(mx|ms|mn|ss)")
_UNCHECKED = re.compile(r"-Dspark\.|-XX:(Flags|VMOptionsFile)=|(?<!\S)@")

OPTION_FILES = ("@", "-XX:Flags=", "-XX:VMOptionsFile=")
"""The prefixes of options with which Java reads more, unchecked options from a file."""

OPTION_VARIABLES = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"})
"""Environment variables from which Java reads options by itself."""


def holds_options(key: str) -> bool:
    return _KEYS.fullmatch(key) is not None


def carries_settings(variable: str, value: str) -> bool:
    """Return whether Java reads a Spark setting, or more options from a file, from that environment variable."""
    # Java removes quotes at any position: -D'spark.x'=1 is a Spark setting.
    return variable in OPTION_VARIABLES and _UNCHECKED.search(re.sub("[\"'\\\\]", "", value)) is not None


def split_options(key: str, options: str) -> list[str]:
    """Split the options as the shell and Spark do. Raises `InvalidInput` for an unclosed quote."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InvalidInput(
            f"{key} cannot be split into JVM options",
            why=str(error).lower(),
            fix="close the quote, or put a backslash before a quote that is part of a value",
        ) from error


def merge_options(key: str, layers: Sequence[str]) -> str:
    """Merge the options of layers in order; a repeated option keeps its last position only.

    A JVM uses the last of two values of a flag, but does not start with two garbage collectors: a layer's collector
    replaces that of the layers below.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for options in layers:
        given = list(_with_arguments(split_options(key, options)))
        if any(_chooses_collector(option) for option in given):
            kept = {name: option for name, option in kept.items() if not _chooses_collector(option)}
        for option in given:
            name = _identity(option)
            kept.pop(name, None)
            kept[name] = option
    return shlex.join(word for option in kept.values() for word in option)


def _with_arguments(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Group the words by option: the value of an option such as `--add-opens a/b=C` is a word of its own."""
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
    """Return the subject of the option; of two options with the same one, only the last applies."""
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
    """One layer's value of a key."""

    layer: str
    value: str
    reason: str
    source: str


@dataclass(frozen=True)
class ResolvedSetting:
    """The final value of a key, and all layers that set it, weakest first.

    The last layer's value applies, except for keys whose values are merged.
    """

    key: str
    value: str
    origins: tuple[Origin, ...]

    @property
    def origin(self) -> Origin:
        """The strongest layer that sets the key."""
        return self.origins[-1]

    @property
    def overridden(self) -> tuple[Origin, ...]:
        """The layers whose value was replaced."""
        return () if _is_merged(self.key) else self.origins[:-1]


@dataclass(frozen=True)
class Resolved:
    """The final settings, in alphabetical order of their keys."""

    settings: tuple[ResolvedSetting, ...]

    def __iter__(self) -> Iterator[ResolvedSetting]:
        return iter(self.settings)

    def values(self) -> dict[str, str]:
        return {setting.key: setting.value for setting in self.settings}


def user_layer(settings: Mapping[str, str]) -> Layer:
    return Layer.of("user", settings, reason="set by the user", source="--conf")


def resolve(layers: Iterable[Layer], size: ClusterSize, user: Mapping[str, str] | None = None) -> Resolved:
    """Return the settings of a cluster of this size, each with its origins.

    `layers` are ordered from the weakest to the strongest; `user` is stronger than all. Raises `InvalidInput` where JVM
    options have an unclosed quote.
    """
    origins: dict[str, list[Origin]] = {}
    for layer in (*layers, user_layer(user or {})):
        for setting, value in layer.for_size(size):
            origins.setdefault(setting.key, []).append(Origin(layer.name, value, setting.reason, setting.source))
    return Resolved(
        tuple(ResolvedSetting(key, _merged(key, found), tuple(found)) for key, found in sorted(origins.items()))
    )


def _is_merged(key: str) -> bool:
    return key in _LISTS or holds_options(key)


def _merged(key: str, origins: list[Origin]) -> str:
    values = [origin.value for origin in origins]
    if holds_options(key):
        return merge_options(key, values)
    if key in _LISTS:
        items = (item.strip() for value in values for item in value.split(","))
        return ",".join(dict.fromkeys(item for item in items if item))
    return values[-1]


DEFAULT_OVERHEAD_FACTOR = Overhead.factor
"""The overhead as a share of the heap, unless the user or the cluster's file sets another."""

PYTHON_IN_PODS = 0.40
"""The share for Python applications in pods, whose memory limit includes Python's memory beside the heap."""

OVERHEADS = ("spark.driver.memoryOverhead", "spark.executor.memoryOverhead")
MINIMUM_OVERHEADS = ("spark.driver.minMemoryOverhead", "spark.executor.minMemoryOverhead")
OVERHEAD_FACTORS = ("spark.driver.memoryOverheadFactor", "spark.executor.memoryOverheadFactor")

_PYTHON = "spark.executor.pyspark.memory"


def with_overheads(size: ClusterSize, settings: Mapping[str, str], *, factor: float, python: bool) -> ClusterSize:
    """Return the size with the overheads of the final settings; `factor` is the default where they name none."""
    driver, executor = (
        Overhead(
            factor=_number(settings.get(factor_key), factor),
            least_bytes=_bytes(settings.get(least), Overhead.least_bytes),
            fixed_bytes=_bytes(settings[fixed], 0) if fixed in settings else None,
        )
        for factor_key, least, fixed in zip(OVERHEAD_FACTORS, MINIMUM_OVERHEADS, OVERHEADS, strict=True)
    )
    more = off_heap_bytes(settings) + (_bytes(settings.get(_PYTHON), 0) if python else 0)
    return replace(size, driver_overhead=driver, executor_overhead=replace(executor, more_bytes=more))


def off_heap_bytes(settings: Mapping[str, str]) -> int:
    """Return the off-heap bytes that Spark itself adds to an executor's pod."""
    if not units.parse_flag(settings.get("spark.memory.offHeap.enabled", "")):
        return 0
    return _whole_mebibytes(units.parse_size(settings.get("spark.memory.offHeap.size", "0")))


def _bytes(text: str | None, default: int) -> int:
    return default if text is None else _whole_mebibytes(units.parse_size(text, unit="m"))


def _whole_mebibytes(count: int | None) -> int:
    return (count or 0) >> 20 << 20


def _number(text: str | None, default: float) -> float:
    found = None if text is None else units.parse_number(text)
    return default if found is None else found
