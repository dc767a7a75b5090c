"""Prices of compute and storage, and the cost of a cluster that follows from them.

The packaged file `prices.yaml` has every price; a user's file overrides single ones. Amounts are in the currency of the
prices, GiB is for memory, and TB is decimal, as for drives.
"""

from __future__ import annotations

import threading
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from penstock import formats
from penstock.errors import PenstockError
from penstock.formats import Entry
from penstock.home import Home
from penstock.model import Application, ClusterSize, Cost, promised
from penstock.units import GIB

HOURS_PER_YEAR = 24 * 365


@dataclass(frozen=True)
class Source:
    """A price and its source."""

    value: float
    source: str


@dataclass(frozen=True)
class Amortisation:
    years: float
    busy_share: float
    """The share of its lifetime in which hardware does paid work, which also pays for the idle hours."""


@dataclass(frozen=True)
class Compute:
    price_per_core: float
    price_per_gib: float
    watts_per_core: float
    watts_per_gib: float
    rent_per_core_hour: float
    rent_per_gib_hour: float


@dataclass(frozen=True)
class Power:
    price_per_kwh: float
    pue: float
    """Power usage effectiveness: the site's power over the machines' power."""


@dataclass(frozen=True)
class Storage:
    fill_share: float
    """The share of the raw capacity that may be filled."""
    price_per_node: float
    drives_per_node: float
    watts_per_node: float


@dataclass(frozen=True)
class Medium:
    title: str
    price_per_tb: float
    tb_per_drive: float
    watts_per_drive: float
    replaced_per_year: float
    """The share of the drives that fail and are replaced each year."""


@dataclass(frozen=True)
class Prices:
    """All prices. `sources` has the source of each, by its key in the file."""

    currency: str
    date: str
    amortisation: Amortisation
    compute: Compute
    power: Power
    storage: Storage
    media: Mapping[str, Medium]
    sources: Mapping[str, Source]

    def compute_per_hour(self, cores: float, memory_gib: float) -> float:
        """The cost of one hour of `cores` and `memory_gib`, driver included."""
        compute = self.compute
        if compute.rent_per_core_hour or compute.rent_per_gib_hour:
            return cores * compute.rent_per_core_hour + memory_gib * compute.rent_per_gib_hour
        bought = cores * compute.price_per_core + memory_gib * compute.price_per_gib
        paid_hours = self.amortisation.years * HOURS_PER_YEAR * self.amortisation.busy_share
        watts = cores * compute.watts_per_core + memory_gib * compute.watts_per_gib
        return bought / paid_hours + self.energy(watts, hours=1)

    def energy(self, watts: float, *, hours: float) -> float:
        """The energy cost of the machines' `watts` over `hours`, including the site's own share."""
        return watts / 1000 * hours * self.power.pue * self.power.price_per_kwh


PACKAGED = "prices.yaml"

_SECTIONS = {"amortisation": Amortisation, "compute": Compute, "power": Power, "storage": Storage}
_TOP = ("currency", "date", *_SECTIONS, "media")
_SHARES = frozenset({"busy_share", "fill_share"})
_ABOVE_ZERO = frozenset({"years", "busy_share", "fill_share", "drives_per_node", "tb_per_drive"})

Section = TypeVar("Section")


def read_prices(path: Path | None = None) -> Prices:
    """The packaged prices, overridden by the file at `path`. Raises `InvalidInput` with the line and key."""
    entries = [formats.parse(packaged_prices(), PACKAGED)]
    if path is not None:
        entries.append(formats.read(path, fix="start from penstock lab price --template"))
    return _build(entries)


def packaged_prices() -> str:
    """The packaged file, with its comments."""
    return resources.files("penstock").joinpath(PACKAGED).read_text(encoding="utf-8")


def _build(files: list[Entry]) -> Prices:
    texts: dict[str, str] = {}
    numbers: dict[str, Source] = {}
    for file in files:
        for name, entry in file.items():
            if name not in _TOP:
                entry.unknown(name, _TOP)
            elif name in ("currency", "date"):
                texts[name] = _text(entry)
            elif name == "media":
                for inner in entry.mapping().values():
                    _take_section(inner, Medium, numbers, texts)
            else:
                _take_section(entry, _SECTIONS[name], numbers, texts)
    media = dict.fromkeys(key[len("media.") :].rpartition(".")[0] for key in numbers if key.startswith("media."))
    return Prices(
        currency=texts["currency"],
        date=texts["date"],
        **{name: _section(kind, numbers, texts, name, files[-1]) for name, kind in _SECTIONS.items()},
        media={name: _section(Medium, numbers, texts, f"media.{name}", files[-1]) for name in media},
        sources=numbers,
    )


def _take_section(entry: Entry, kind: type[Any], numbers: dict[str, Source], texts: dict[str, str]) -> None:
    kinds = typing.get_type_hints(kind)
    for name, inner in entry.items():
        if name not in kinds:
            inner.unknown(name, kinds)
        elif kinds[name] is str:
            texts[inner.key] = _text(inner)
        else:
            numbers[inner.key] = _price(inner, name)


def _section(
    kind: type[Section], numbers: dict[str, Source], texts: dict[str, str], prefix: str, last: Entry
) -> Section:
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type] # a type variable cannot say that it is a dataclass
        key = f"{prefix}.{field.name}"
        if key in numbers:
            given[field.name] = numbers[key].value
        elif key in texts:
            given[field.name] = texts[key]
        elif field.name == "title":
            given[field.name] = prefix.rpartition(".")[2]
        else:
            last.fail(f"lacks {key}", fix="a medium of your own needs all prices that the packaged ones have")
    return kind(**given)


def _price(entry: Entry, name: str) -> Source:
    number, source = entry, entry.source
    if isinstance(entry.value, dict):
        unknown = entry.value.keys() - {"value", "source"}
        if unknown:
            entry.value[min(unknown)].fail(
                "is not known", fix=f"write {name}: {{value: 1.5, source: where it is from}}"
            )
        if "value" not in entry.value:
            entry.fail("has no value", fix=f"write {name}: {{value: 1.5, source: where it is from}}")
        number = entry.value["value"]
        source = _text(entry.value["source"]) if "source" in entry.value else entry.source
    value = number.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        number.fail(f"is not a number but {value!r}", fix=f"write {name}: 1.5")
    if not 0 <= value < float("inf"):  # also excludes NaN
        number.fail(f"is {value}, but a price must be finite and not negative")
    if name in _ABOVE_ZERO and value == 0:
        number.fail("must be above 0")
    if name in _SHARES and value > 1:
        number.fail(f"is {value}, but a share is at most 1")
    if name == "pue" and value < 1:
        number.fail(f"is {value}, but a site never draws less than its machines")
    return Source(float(value), source)


def _text(entry: Entry) -> str:
    if entry.value is None or isinstance(entry.value, (dict, list)):
        entry.fail("is not text")
    return str(entry.value)


OWN_PRICES = "prices.yaml"
"""The file in the state directory that overrides packaged prices (`penstock lab price --template`)."""


def cluster_hour(size: ClusterSize, prices: Prices) -> float:
    """The cost of one hour of all that a cluster is promised: heaps, overheads and scratch, driver included. Pure."""
    promise = promised(size)
    return prices.compute_per_hour(promise.cores, promise.memory_bytes / GIB)


def cluster_cost(size: ClusterSize, held: timedelta, prices: Prices) -> Cost:
    """The cost of a cluster of `size`, held for the time `held`. Pure."""
    return Cost(cluster_hour(size, prices) * max(held, timedelta()) / timedelta(hours=1), prices.currency)


class Pricing:
    """The home's prices, read when the first cluster is priced."""

    def __init__(self, home: Home) -> None:
        self._file = home.root / OWN_PRICES
        self._reading = threading.Lock()
        self._prices: Prices | None = None

    def attempt_cost(self, application: Application, until: datetime) -> Cost | None:
        """The cost of the application's present cluster until `until`; None where it holds none.

        It is also None where the prices cannot be read, since a mistake in a price file must not fail an application.
        """
        if application.cluster is None or application.admitted_at is None:
            return None
        try:
            prices = self.prices()
        except PenstockError:
            return None
        return cluster_cost(application.spec.size, until - application.admitted_at, prices)

    def accrued_cost(self, application: Application, until: datetime) -> Cost | None:
        """The cost of all its attempts, including the present one."""
        if application.state.final:
            return application.cost
        running, before = self.attempt_cost(application, until), application.cost
        if running is None or before is None:
            return running or before
        return Cost(before.amount + running.amount, running.currency)

    def prices(self) -> Prices:
        """The home's prices. Raises `InvalidInput`, which names the line, where its own file is invalid."""
        with self._reading:
            if self._prices is None:
                self._prices = read_prices(self._file if self._file.exists() else None)
            return self._prices
