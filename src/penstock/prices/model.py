"""Prices, and what follows from them alone. Pure; money is in the currency of the prices.

Nothing here knows a price: `pricefile.py` reads them. GiB is for memory; TB is decimal, as drives are sold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOURS_PER_YEAR = 24 * 365


@dataclass(frozen=True)
class Source:
    """Where a price is from, and the prices' date."""

    value: float
    source: str


@dataclass(frozen=True)
class Amortisation:
    years: float
    busy_share: float
    """Of the hours of its life, those in which hardware does paid work: what idles is paid by what runs."""


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
    """Power usage effectiveness: what the site draws over what the machines draw."""


@dataclass(frozen=True)
class Storage:
    fill_share: float
    """Of the raw capacity, what may be filled."""
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
    """Share of the drives that fail and are bought again each year."""


@dataclass(frozen=True)
class Prices:
    """`sources` says of every price, by its key in the file, where it is from."""

    currency: str
    date: str
    amortisation: Amortisation
    compute: Compute
    power: Power
    storage: Storage
    media: Mapping[str, Medium]
    sources: Mapping[str, Source]

    def compute_per_hour(self, cores: float, memory_gib: float) -> float:
        """An hour of so many cores and so much memory, driver included."""
        compute = self.compute
        if compute.rent_per_core_hour or compute.rent_per_gib_hour:
            return cores * compute.rent_per_core_hour + memory_gib * compute.rent_per_gib_hour
        bought = cores * compute.price_per_core + memory_gib * compute.price_per_gib
        paid_hours = self.amortisation.years * HOURS_PER_YEAR * self.amortisation.busy_share
        watts = cores * compute.watts_per_core + memory_gib * compute.watts_per_gib
        return bought / paid_hours + self.energy(watts, hours=1)

    def energy(self, watts: float, *, hours: float) -> float:
        """What the machines' `watts` cost over so many hours, the site's own share included."""
        return watts / 1000 * hours * self.power.pue * self.power.price_per_kwh
