"""The size of a cluster, from the settings in which IBM's bodies ask for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, ProcessSize
from penstock.service.dialects.asked import EXECUTORS
from penstock.units import GIB, MIB

_COUNT = "ae.spark.executor.count"
_DRIVER_CORES, _DRIVER_MEMORY = "spark.driver.cores", "spark.driver.memory"
_EXECUTOR_CORES, _EXECUTOR_MEMORY = "spark.executor.cores", "spark.executor.memory"
_SIZES = (EXECUTORS, _DRIVER_CORES, _DRIVER_MEMORY, _EXECUTOR_CORES, _EXECUTOR_MEMORY)
_MOST = 100_000


def one_name(settings: Mapping[str, str]) -> dict[str, str]:
    """IBM's own setting for the number of executors under Spark's name, so that one layer of settings hides another."""
    if _COUNT not in settings:
        return dict(settings)
    return {**{key: value for key, value in settings.items() if key != _COUNT}, EXECUTORS: settings[_COUNT]}


def parted(settings: Mapping[str, str], usual: ClusterSize) -> tuple[ClusterSize, dict[str, str]]:
    """The size, part by part as asked or as usual, and the settings (after `one_name`) without it.

    Raises `InvalidInput`.
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


def as_settings(size: ClusterSize) -> dict[str, str]:
    """As these dialects show it."""
    return {
        _DRIVER_CORES: str(size.driver.cores),
        _DRIVER_MEMORY: shown(size.driver.memory_bytes),
        _EXECUTOR_CORES: str(size.executor.cores),
        _EXECUTOR_MEMORY: shown(size.executor.memory_bytes),
        _COUNT: str(size.executors),
    }


def shown(memory_bytes: int) -> str:
    """`4G`, or `512M` where it is no whole number of GiB; rounded up to a MiB."""
    if memory_bytes % GIB == 0:
        return f"{memory_bytes // GIB}G"
    return f"{-(-memory_bytes // MIB)}M"


def _count(settings: Mapping[str, str], key: str) -> int | None:
    text = settings.get(key)
    if text is None:
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or not 1 <= int(text[:12]) <= _MOST:
        raise InvalidInput(f"{key} cannot be used", why=f"it is no whole number from 1 to {_MOST}", fix=f'"{key}": "2"')
    return int(text)


def _memory(settings: Mapping[str, str], key: str) -> int | None:
    text = settings.get(key)
    if text is None:
        return None
    # Spark counts a bare number in MiB.
    found = units.parse_size(text[:32], unit="m")
    if found is None or not 0 < found < 1 << 50:
        raise InvalidInput(f"{key} cannot be used", why="it is no size of a heap", fix=f'"{key}": "4G"')
    return found
