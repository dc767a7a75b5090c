"""The settings that this release's Spark, Hadoop and S3A declare, from the build's `jars/known-settings.json`."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import units
from penstock.errors import MissingRequirement
from penstock.profiles import base

HADOOP_PREFIX = "spark.hadoop."
_BUCKET_KEY = re.compile(r"fs\.s3a\.bucket\.[^.]+\.(?!bucket\.)(.+)")

# Two less similar names are more likely different names than one name with a typo.
_SIMILARITY = 0.86
_LETTERS_IN_A_TYPO = 2


@dataclass(frozen=True)
class KnownSetting:
    """A setting that Spark or Hadoop declares.

    `kind` is boolean, int, double, time, size, choice, string, or number (a unit may follow). `unit` is the unit of a
    number without one.
    """

    key: str
    kind: str
    default: str | None = None
    since: str | None = None
    unit: str | None = None
    choices: tuple[str, ...] = ()
    deprecated: str | None = None

    def expected(self, value: str) -> str | None:
        """Describe the expected kind of value; None where `value` is valid or cannot be checked."""
        text = value.strip()
        reads = (_HADOOP_READS if self.key.startswith(HADOOP_PREFIX) else _READS).get(self.kind)
        if not text or "${" in text or reads is None or reads(self, text):
            return None
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        return _DESCRIPTIONS[self.kind]


_Reads = Callable[[KnownSetting, str], bool]

_DESCRIPTIONS = {
    "boolean": "true or false",
    "int": "a whole number, without a unit",
    "double": "a number such as 0.5",
    "time": "a time such as 500ms, 30s or 5m",
    "size": "a size such as 512k, 64m or 4g",
    "number": "a number, optionally with a unit",
}


_READS: dict[str, _Reads] = {
    "boolean": lambda _, text: units.parse_flag(text) is not None,
    "int": lambda _, text: re.fullmatch(r"[+-]?\d+", text) is not None,
    "double": lambda _, text: units.parse_number(text) is not None,
    "time": lambda known, text: units.parse_seconds(text, unit=known.unit or "s") is not None,
    "size": lambda known, text: units.parse_size(text, unit=known.unit or "b") is not None,
    "number": lambda _, text: re.match(r"[+-]?\d", text) is not None,
    "choice": lambda known, text: text.lower() in {choice.lower() for choice in known.choices},
}

# Hadoop accepts fewer suffixes than Spark: no `64mb`, no `5min`.
_HADOOP_READS: dict[str, _Reads] = {
    **_READS,
    "time": lambda _, text: re.fullmatch(r"-?\d+(ns|us|ms|s|m|h|d)?", text.lower()) is not None,
    "size": lambda _, text: re.fullmatch(r"-?\d+[kmgtpe]?", text.lower()) is not None,
}


@dataclass(frozen=True)
class Registry:
    """The known settings by key. Hadoop's keys have Spark's prefix `spark.hadoop.`."""

    settings: Mapping[str, KnownSetting]
    name_spaces: frozenset[str] = field(init=False, repr=False, compare=False)
    """The part after `spark.` in Spark's own keys."""
    _by_folded: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spaces = (key.split(".")[1] for key in self.settings if not key.startswith(HADOOP_PREFIX))
        object.__setattr__(self, "name_spaces", frozenset(spaces))
        object.__setattr__(self, "_by_folded", {_folded(key): key for key in self.settings})

    @staticmethod
    def of(records: Iterable[Mapping[str, Any]]) -> Registry:
        found = {}
        for record in records:
            key = record["key"] if record["key"].startswith("spark.") else HADOOP_PREFIX + record["key"]
            found[key] = KnownSetting(**{**record, "key": key, "choices": tuple(record.get("choices", ()))})
        return Registry(found)

    def get(self, key: str) -> KnownSetting | None:
        return self.settings.get(_without_bucket(key))

    def closest(self, key: str) -> str | None:
        """Return the known key that this one most likely stands for; None where none is similar."""
        name = _without_bucket(key)
        if same := self._by_folded.get(_folded(name)):
            return same
        near = difflib.get_close_matches(name, self._candidates(name), n=1, cutoff=_SIMILARITY)
        return near[0] if near else None

    def is_typo(self, key: str, near: str) -> bool:
        """Return whether the two keys differ by a typo only: a letter or two, capitals, dots."""
        name = _without_bucket(key)
        return _folded(name) == _folded(near) or _edits(name, near) <= _LETTERS_IN_A_TYPO

    def _candidates(self, name: str) -> list[str]:
        # A typo changes a letter or two: keys of a different length need no comparison.
        return [key for key in self.settings if abs(len(key) - len(name)) <= 4]


def _folded(key: str) -> str:
    """Return the key without the usual variations: capitals, dots, dashes and underscores."""
    return re.sub(r"[._-]", "", key).lower()


def _edits(one: str, other: str) -> int:
    """Return the Levenshtein distance of two texts."""
    costs = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        diagonal, costs[0] = costs[0], row
        for column, other_letter in enumerate(other, start=1):
            replaced = diagonal + (letter != other_letter)
            diagonal = costs[column]
            costs[column] = min(replaced, costs[column] + 1, costs[column - 1] + 1)
    return costs[-1]


def _without_bucket(key: str) -> str:
    """Return the general key of a per-bucket key of S3A (`fs.s3a.bucket.NAME.endpoint`)."""
    if key.startswith(HADOOP_PREFIX) and (match := _BUCKET_KEY.fullmatch(key.removeprefix(HADOOP_PREFIX))):
        return f"{HADOOP_PREFIX}fs.s3a.{match[1]}"
    return key


@functools.cache
def bundled_registry() -> Registry:
    """Return this installation's registry, with those settings of Penstock that no JVM code declares.

    Raises `MissingRequirement` where the build did not write the file.
    """
    path = Path(__file__).parent.parent / "jars" / "known-settings.json"
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MissingRequirement(
            "The list of Spark's settings is missing",
            why=f"the build of the jars writes {path}",
            fix="make jars",
        ) from error
    own = [{"key": base.SCRATCH_MEMORY, "kind": "size", "default": "0"}, {"key": base.SCRATCH_DISK, "kind": "string"}]
    return Registry.of([*records, *own])
