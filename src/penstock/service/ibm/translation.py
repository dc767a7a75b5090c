"""Translation of a body into an application of the engine, including sizes, time intervals and states. Pure.

IBM's time intervals are `<lower>,<upper>`, the lower end inclusive, the upper one exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Literal

from penstock import units
from penstock.engine.policy.lifecycle import INFRASTRUCTURE
from penstock.engine.repository.listing import Interval
from penstock.errors import InvalidInput
from penstock.lake.model import Credentials, Lake
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, Reason, State
from penstock.service.ibm import stores
from penstock.service.ibm.bodies import EXECUTORS, ParsedRequest
from penstock.service.ibm.stores import application_address, cos_addresses, map_mounts, rewrite_cos_addresses
from penstock.units import GIB, MIB

_COUNT = "ae.spark.executor.count"
_DRIVER_CORES, _DRIVER_MEMORY = "spark.driver.cores", "spark.driver.memory"
_EXECUTOR_CORES, _EXECUTOR_MEMORY = "spark.executor.cores", "spark.executor.memory"
_SIZES = (EXECUTORS, _DRIVER_CORES, _DRIVER_MEMORY, _EXECUTOR_CORES, _EXECUTOR_MEMORY)
_MOST = 100_000
_MOST_DIGITS = 12
_MOST_CHARACTERS = 32
"""The limit on a size of memory."""


def normalize_executor_count(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with Spark's name for the number of executors, so that layers override each other."""
    if _COUNT not in settings:
        return dict(settings)
    return {**{key: value for key, value in settings.items() if key != _COUNT}, EXECUTORS: settings[_COUNT]}


def split_size(settings: Mapping[str, str], usual: ClusterSize) -> tuple[ClusterSize, dict[str, str]]:
    """Return the size in the settings, with `usual` for missing parts, and the other settings.

    `normalize_executor_count` comes first. Raises `InvalidInput`.
    """
    size = ClusterSize(
        driver=ProcessSize(
            _count(settings, _DRIVER_CORES) or usual.driver.cores,
            _memory(settings, _DRIVER_MEMORY) or usual.driver.memory_bytes,
        ),
        executor=ProcessSize(
            _count(settings, _EXECUTOR_CORES) or usual.executor.cores,
            _memory(settings, _EXECUTOR_MEMORY) or usual.executor.memory_bytes,
        ),
        executors=_count(settings, EXECUTORS) or usual.executors,
    )
    return size, {key: value for key, value in settings.items() if key not in _SIZES}


def size_settings(size: ClusterSize) -> dict[str, str]:
    """Return the size as settings under IBM's names."""
    return {
        _DRIVER_CORES: str(size.driver.cores),
        _DRIVER_MEMORY: format_memory(size.driver.memory_bytes),
        _EXECUTOR_CORES: str(size.executor.cores),
        _EXECUTOR_MEMORY: format_memory(size.executor.memory_bytes),
        _COUNT: str(size.executors),
    }


def format_memory(memory_bytes: int) -> str:
    """Format a size as `4G`, or as `512M` where it is no whole number of GiB; rounded up to a MiB."""
    if memory_bytes % GIB == 0:
        return f"{memory_bytes // GIB}G"
    return f"{-(-memory_bytes // MIB)}M"


def _count(settings: Mapping[str, str], key: str) -> int | None:
    given = settings.get(key)
    if given is None:
        return None
    text = given.strip()
    # Python refuses to read thousands of digits.
    digits = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not digits or not 1 <= int(text) <= _MOST:
        raise InvalidInput(f"{key} is invalid", why=f"it is not a whole number from 1 to {_MOST}", fix=f'"{key}": "2"')
    return int(text)


def _memory(settings: Mapping[str, str], key: str) -> int | None:
    given = settings.get(key)
    if given is None:
        return None
    text = given.strip()
    # Python refuses to read thousands of digits; Spark counts a bare number in MiB.
    found = units.parse_size(text, unit="m") if len(text) <= _MOST_CHARACTERS else None
    if found is None or not 0 < found < 1 << 50:
        raise InvalidInput(f"{key} is invalid", why="it is not the size of a heap", fix=f'"{key}": "4G"')
    return found


SUBMITTER_CLASS = "org.apache.spark.deploy.SparkSubmit"
"""The main class of a Python file in the older API."""

_PATHS = {"spark.jars": "jars", "spark.files": "files", "spark.submit.pyFiles": "python_files"}
# Paths inside the container images of IBM's services.
_FOREIGN_IMAGE = ("/opt/ibm/", "/home/spark/")
_LONGEST_NAME = 200
_AUTOSCALE = "ae.spark.autoscale."
_HISTORY = "ae.spark.history-server."


@dataclass(frozen=True)
class Translation:
    """A translated body; `keys` are those for the lake that came with it, if any."""

    spec: ApplicationSpec
    lake: Lake
    keys: Credentials | None


@dataclass(frozen=True)
class TranslationContext:
    """The context of a translation: the instance with its default settings, the known lakes, and the default size.

    `home` is the instance's own lake or the default one.
    """

    instance: str
    usual: ClusterSize
    home: Lake
    lakes: Sequence[Lake] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


def translate(submission: ParsedRequest, context: TranslationContext) -> Translation:
    """Translate a body. Raises `InvalidInput` for one that cannot run here as intended.

    Nothing that would change a result is dropped.
    """
    named, settings = stores.split_stores(
        {**normalize_executor_count(context.defaults), **normalize_executor_count(submission.settings)}
    )
    choice = stores.choose_lake(named, list(cos_addresses(submission)), context.lakes, context.home)
    size, settings = split_size(_without_autoscaling(settings), context.usual)
    settings = {key: rewrite_cos_addresses(value) for key, value in settings.items()}
    name = settings.pop("spark.app.name", None)
    at = map_mounts(submission.volumes, choice.lake.root)

    def address(path: str) -> str:
        return application_address(at(rewrite_cos_addresses(path)))

    paths = {field: _listed(settings.pop(key, "")) for key, field in _PATHS.items()}
    application = address(submission.application)
    python = application.lower().endswith(".py")
    spec = ApplicationSpec(
        application=application,
        arguments=tuple(at(rewrite_cos_addresses(argument)) for argument in submission.arguments),
        size=size,
        name=(submission.name or name or application.rpartition("/")[2] or application)[:_LONGEST_NAME],
        main_class=None if python and submission.main_class == SUBMITTER_CLASS else submission.main_class,
        lake=choice.lake.name,
        settings=settings,
        environment={
            key: value for key, value in submission.environment.items() if not value.startswith(_FOREIGN_IMAGE)
        },
        jars=tuple(address(path) for path in (*submission.jars, *paths["jars"])),
        files=tuple(address(path) for path in (*submission.files, *paths["files"])),
        python_files=tuple(address(path) for path in paths["python_files"]),
        instance=context.instance,
    )
    return Translation(spec, choice.lake, choice.keys)


def _without_autoscaling(settings: Mapping[str, str]) -> dict[str, str]:
    if settings.get(f"{_AUTOSCALE}enable", "false").strip().lower() != "false":
        raise InvalidInput(
            f"{_AUTOSCALE}enable is not supported",
            why="a cluster has a fixed size here",
            fix='set the size: "ae.spark.executor.count": "4"',
        )
    return {key: value for key, value in settings.items() if not key.startswith((_AUTOSCALE, _HISTORY))}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_BEGINNING, _CURRENT = "BEGINNING", "CURRENT"
_EXAMPLE = "BEGINNING,2026-11-21T12:00:00Z"
# Python 3.10 reads neither `Z`, nor `+0000`, nor a fraction of any length.
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[Tt](?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?)?",
    re.ASCII,
)


def parse_interval(name: str, text: str | None, now: datetime) -> Interval:
    """Parse an interval. Times without a zone are UTC, as everywhere in these APIs. Raises `InvalidInput`."""
    if not text:
        return Interval()
    lower, comma, upper = text.partition(",")
    if not comma or "," in upper:
        raise _invalid(name, "it needs two times and one comma between them")
    begin = None if lower.strip() == _BEGINNING else _time(name, lower)
    end = now if upper.strip() == _CURRENT else _time(name, upper)
    if begin is not None and end < begin:
        raise _invalid(name, "it ends before it begins")
    return Interval(begin, end)


def _time(name: str, text: str) -> datetime:
    # An unescaped `+` in an address arrives as a blank.
    found = _TIME.fullmatch(text.strip().replace(" ", "+"))
    if found is None:
        raise _invalid(name, "a time is ISO 8601, or BEGINNING at the beginning, or CURRENT at the end")
    zone = f"{found['sign']}{found['hours']}:{found['minutes']}" if found["sign"] else "+00:00"
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    time = found["time"] or "00:00"
    clock = f"{time if time.count(':') == 2 else time + ':00'}.{fraction}"
    try:
        return datetime.fromisoformat(f"{found['date']}T{clock}{zone}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise _invalid(name, "there is no such time") from None


def _invalid(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"{name} is not an interval", why=why, fix=f"?{name}={_EXAMPLE}")


ApplicationState = Literal["accepted", "running", "finished", "failed", "stopped", "auto_terminated", "ops_terminated"]

OPS_TERMINATED: ApplicationState = "ops_terminated"
"""IBM's state of applications that its operators stopped; here they are `stopped` like any other."""

_WORDS: Mapping[State, ApplicationState] = {
    State.ACCEPTED: "accepted",
    State.WAITING: "accepted",
    State.STARTING: "accepted",
    State.RUNNING: "running",
    # It has its cluster until it has ended.
    State.STOPPING: "running",
    State.FINISHED: "finished",
    State.FAILED: "failed",
    State.STOPPED: "stopped",
    State.AUTO_TERMINATED: "auto_terminated",
}
IBM_STATES = (*dict.fromkeys(_WORDS.values()), OPS_TERMINATED)


def ibm_state(state: State) -> ApplicationState:
    return _WORDS[state]


def parse_states(words: Iterable[str]) -> list[State]:
    """Return the states of IBM's words, each text with one or several separated by commas. Raises `InvalidInput`."""
    named = {part.strip().lower() for text in words for part in text.split(",") if part.strip()}
    if unknown := named - set(IBM_STATES):
        raise InvalidInput(
            f"{len(unknown)} of the states {'is' if len(unknown) == 1 else 'are'} unknown",
            why=f"the states are {', '.join(IBM_STATES)}",
            fix="?state=running,finished",
        )
    return [state for state, name in _WORDS.items() if name in named]


def state_details(state: State, reason: Reason | None) -> list[dict[str, str]]:
    """Return `state_details`: the reason of the state, as an error of the user or of the server."""
    if reason is None:
        return []
    blame = "server_error" if reason.code in INFRASTRUCTURE else "user_error"
    text = f"{reason.message}; {reason.fix}" if reason.fix else reason.message
    return [{"type": blame if state is State.FAILED else "info", "code": reason.code, "message": text}]
