"""What an application's clusters cost, from the prices of the home: hours of what it was promised, idle or not."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from penstock.engine.application import Application, ClusterSize, Cost, promised
from penstock.errors import PenstockError
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.prices.model import Prices

OWN_PRICES = "prices.yaml"
"""In the state directory: what differs from the packaged prices (`penstock lab price --template`)."""

_GIB = 1 << 30


def of_cluster(size: ClusterSize, held: timedelta, prices: Prices) -> Cost:
    """Pure."""
    promise = promised(size)
    per_hour = prices.compute_per_hour(promise.cores, promise.memory_bytes / _GIB)
    return Cost(per_hour * max(held, timedelta()) / timedelta(hours=1), prices.currency)


class Pricing:
    """The home's prices, read when the first cluster is priced."""

    def __init__(self, home: Home) -> None:
        self._file = home.root / OWN_PRICES
        self._reading = threading.Lock()
        self._prices: Prices | None = None

    def of_attempt(self, application: Application, until: datetime) -> Cost | None:
        """Of the cluster that the application holds; None where it holds none, or the prices cannot be read: an
        application does not fail for a mistake in a price list."""
        if application.cluster is None or application.admitted_at is None:
            return None
        try:
            prices = self.prices()
        except PenstockError:
            return None
        return of_cluster(application.spec.size, until - application.admitted_at, prices)

    def so_far(self, application: Application, until: datetime) -> Cost | None:
        """Of all its attempts, the present one included."""
        if application.state.final:
            return application.cost
        running, before = self.of_attempt(application, until), application.cost
        if running is None or before is None:
            return running or before
        return Cost(before.amount + running.amount, running.currency)

    def prices(self) -> Prices:
        """Raises `InvalidInput`, which names the line, where the home's own file is not understood."""
        from penstock.prices import pricefile

        with self._reading:
            if self._prices is None:
                self._prices = pricefile.prices(self._file if self._file.exists() else None)
            return self._prices
