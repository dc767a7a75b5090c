"""Prometheus metrics: requests as they pass, and what the records hold when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from penstock.service.journal import Seen

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0, 60.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Counts = Mapping[tuple[str, str], int]
"""Applications that have not ended, by (instance, state)."""


class Metrics:
    """One registry for each service, so that several can live in one process (tests do)."""

    def __init__(self, applications: Callable[[], Counts]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(_Applications(applications))
        labels = ("method", "route", "status")
        self._requests = Counter("penstock_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "penstock_http_request_seconds",
            "From a request's arrival to the end of its answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count(self, seen: Seen) -> None:
        # The route's template and never the address, and a method that HTTP has: labels must stay few, whoever asks for
        # whatever.
        method = seen.method if seen.method in _METHODS else "other"
        self._requests.labels(method, seen.route, str(seen.status)).inc()
        self._seconds.labels(method, seen.route).observe(seen.seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Applications(Collector):
    def __init__(self, count: Callable[[], Counts]) -> None:
        self._count = count

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "penstock_applications", "Applications that have not ended.", labels=["instance", "state"]
        )
        for (instance, state), number in self._count().items():
            family.add_metric([instance, state], number)
        yield family
