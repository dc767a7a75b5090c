"""What runs and stores cost: compute by the hour, storage over its life. Pure; money is in the currency of the prices.

Nothing here knows a price: `penstock.prices` does. GB and TB are decimal, as drives are sold and as throughput per
core is published; GiB is for memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.lab.analysis import gb_per_core_hour
from penstock.prices import HOURS_PER_YEAR, Medium, Prices

TB = 10**12


@dataclass(frozen=True)
class Protection:
    """How a store survives the loss of drives: `copies` of everything, or `data` + `parity` chunks (erasure coding)."""

    name: str
    factor: float
    """Bytes on drives per byte stored: 3 for three copies, 1.5 for 4+2."""
    hosts: int
    """Machines needed so that no two copies or chunks share one."""


def protection(text: str) -> Protection:
    """`3x` or `4+2`. Raises `ValueError` for anything else."""
    if found := re.fullmatch(r"([1-9]\d?)x", text):
        copies = int(found[1])
        return Protection(text, copies, copies)
    if found := re.fullmatch(r"([1-9]\d?)\+([1-9]\d?)", text):
        data, parity = int(found[1]), int(found[2])
        return Protection(text, (data + parity) / data, data + parity)
    raise ValueError(f"{text} is neither a number of copies (3x) nor data and parity chunks (4+2)")


@dataclass(frozen=True)
class RunCost:
    """One run's price/performance. `cores` are the executors' task slots; the cost is that of the whole cluster."""

    seconds: float
    cores: int
    cost: float
    bytes: float | None

    @property
    def gb_per_core_hour(self) -> float | None:
        """Throughput that can be compared between clusters of other sizes."""
        return gb_per_core_hour(self.bytes, self.seconds, self.cores) if self.bytes else None

    @property
    def cost_per_tb(self) -> float | None:
        return self.cost / (self.bytes / TB) if self.bytes else None


@dataclass(frozen=True)
class StoreCost:
    """A store that holds `capacity_bytes` of users' data, over the years of its amortisation."""

    protection: Protection
    medium: Medium
    capacity_bytes: float
    years: float
    raw_bytes: float
    drives: int
    nodes: int
    watts: float
    drives_cost: float
    nodes_cost: float
    energy_cost: float
    replacements_cost: float

    @property
    def total_cost(self) -> float:
        return self.drives_cost + self.nodes_cost + self.energy_cost + self.replacements_cost

    @property
    def cost_per_usable_tb_year(self) -> float:
        return self.total_cost / (self.capacity_bytes / TB) / self.years


def store_cost(prices: Prices, medium: Medium, kept: Protection, capacity_bytes: float) -> StoreCost:
    """Total cost of ownership: whole drives in whole nodes, at least one node for each copy or chunk."""
    storage, years = prices.storage, prices.amortisation.years
    raw_bytes = capacity_bytes * kept.factor / storage.fill_share
    drives = math.ceil(raw_bytes / TB / medium.tb_per_drive)
    nodes = max(math.ceil(drives / storage.drives_per_node), kept.hosts)
    drives = max(drives, nodes)
    watts = drives * medium.watts_per_drive + nodes * storage.watts_per_node
    drives_cost = drives * medium.tb_per_drive * medium.price_per_tb
    return StoreCost(
        protection=kept,
        medium=medium,
        capacity_bytes=capacity_bytes,
        years=years,
        raw_bytes=raw_bytes,
        drives=drives,
        nodes=nodes,
        watts=watts,
        drives_cost=drives_cost,
        nodes_cost=nodes * storage.price_per_node,
        energy_cost=prices.energy(watts, hours=years * HOURS_PER_YEAR),
        replacements_cost=drives_cost * medium.replaced_per_year * years,
    )


@dataclass(frozen=True)
class Relative:
    """One arm against the first, with raw capacity as the stand-in for price, as Red Hat's Spark-on-Ceph tests have it.

    `time` and `capacity` are ratios to the baseline; below 1 is faster, or smaller.
    """

    time: float
    capacity: float

    @property
    def performance(self) -> float:
        """Work done in the same time: above 1 is faster."""
        return 1 / self.time

    @property
    def price_performance(self) -> float:
        """Time × raw capacity: below 1 the same work costs less storage-time than with the baseline."""
        return self.time * self.capacity


def relative(seconds: Sequence[float], kept: Sequence[Protection]) -> list[Relative]:
    """Of each arm against the first."""
    return [
        Relative(own / seconds[0], protected.factor / kept[0].factor)
        for own, protected in zip(seconds, kept, strict=True)
    ]
