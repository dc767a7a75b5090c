"""Costs as people read them, and where the prices are from."""

from __future__ import annotations

import math

from penstock import units
from penstock.lab.report.document import Section, Table
from penstock.lab.rightsizing import CORE_HOURS
from penstock.prices import Prices


def amount(value: float, currency: str) -> str:
    """`USD 1.25`, `USD 0.00123`; without prices `0.25 core-hours`."""
    return f"{digits(value)} {currency}" if currency == CORE_HOURS else f"{currency} {digits(value)}"


def digits(value: float) -> str:
    """Money from a run of seconds to a store of years: three digits that mean something, never an exponent."""
    if value >= 1000:
        return units.count(value)
    if value >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}"


def sources(prices: Prices, *sections: str) -> Section:
    """The prices of these sections of the price file, and where each is from."""
    rows = [
        (key, f"{found.value:g}", found.source)
        for key, found in prices.sources.items()
        if key.partition(".")[0] in sections
    ]
    note = f"In {prices.currency}, of {prices.date}. Copy the file, edit it, and give it with --prices FILE."
    table = Table(("price", "value", "source"), rows, numeric=frozenset({1}), folded=units.plural(len(rows), "price"))
    return Section("Prices used", note, [table])
