"""The context of every route: the engine, tokens, streams, metrics, and whether the service is shutting down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from penstock.catalog.database import Database
from penstock.catalog.metastore import DatabaseOwners
from penstock.engine.catalog_service import IcebergCatalog
from penstock.engine.engine import Engine
from penstock.engine.repository.applications import now
from penstock.engine.repository.retention import Retention
from penstock.errors import NotFound
from penstock.home import Home
from penstock.lake.registry import Lakes
from penstock.service.access_log import AnsweredRequest
from penstock.service.auth import BrowserGrants
from penstock.service.guards import ConcurrencyLimits, RequestCounts
from penstock.service.iceberg.catalog import IcebergFront
from penstock.service.iceberg.credentials import CredentialVendor
from penstock.service.listening import PORT
from penstock.service.problems import PathRedactor
from penstock.service.spark_ui.access import SparkOrigin, SparkUi
from penstock.service.streaming import ChangeNotifier, EngineEvents, EventFeed, LogTailing

if TYPE_CHECKING:
    from penstock.engine.tokens import TokenStore


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0, 60.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Counts = Mapping[tuple[str, str], int]
"""Applications that have not ended, by (instance, state)."""


class Metrics:
    """The metrics of one service, in a registry of its own: tests run several services in one process."""

    def __init__(self, applications: Callable[[], Counts]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(_Applications(applications))
        labels = ("method", "route", "status")
        self._requests = Counter("penstock_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "penstock_http_request_seconds",
            "Time from a request's arrival to the end of its response, in seconds.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count(self, seen: AnsweredRequest) -> None:
        # The route's template instead of the address, and a known method: clients must not be able to add labels.
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


class Reports(Protocol):
    """The lab's runs that a service shows. The service does not import the lab: the caller of `serve` passes them."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each run, the newest first."""

    def page(self, run_id: str) -> str:
        """Return the run's report as HTML that loads nothing else. Raises `NotFound`."""


class NoReports:
    """The runs of a service without a lab: none."""

    def rows(self) -> list[dict[str, Any]]:
        return []

    def page(self, run_id: str) -> str:
        raise NotFound(f"There is no run “{run_id}”", why="this service was started without a lab")


@dataclass
class Service:
    """The state that all routes share. Creating one starts nothing.

    `closing` is set when the shutdown begins: streams finish, and the readiness check fails.
    """

    home: Home
    engine: Engine
    tokens: TokenStore
    retention: Retention = field(default_factory=Retention)
    spark_origin: SparkOrigin = field(default_factory=lambda: SparkOrigin(PORT + 1))
    bounds: ConcurrencyLimits = field(default_factory=ConcurrencyLimits)
    reports: Reports = field(default_factory=NoReports)
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.log_tailing = LogTailing(_Logs(self.engine), closing=self.closing.is_set)
        self.change_notifier = ChangeNotifier(self.engine.get, closing=self.closing)
        self.metrics = Metrics(self._counts)
        self.feed = EventFeed(EngineEvents(self), closing=self.closing.is_set)
        self.path_redactor = PathRedactor(self.home)
        self.browser_grants = BrowserGrants(self.tokens, now)
        self.request_counts = RequestCounts(self.bounds)
        self.spark_ui = SparkUi(self.tokens, now)
        self.database_owners: Callable[[], Mapping[str, str]] = DatabaseOwners(Database(self.home))
        self.iceberg = IcebergFront(IcebergCatalog(self.home), self.database_owners, CredentialVendor(Lakes(self.home)))

    def notify(self, application_id: str) -> None:
        """Announce that an application changed. Called on the event loop."""
        self.change_notifier.notify(application_id)
        self.feed.notify(application_id)

    def notify_all(self) -> None:
        """Announce that any application may have changed. Called on the event loop."""
        self.change_notifier.notify_all()
        self.feed.notify_all()

    def _counts(self) -> Counts:
        found = self.engine.applications.counts()
        return {(name, state.value): number for name, states in found.items() for state, number in states.items()}


class _Logs:
    """The engine's logs, as `LogTailing` reads them."""

    def __init__(self, engine: Engine) -> None:
        self.piece = engine.artifacts.piece
        self._engine = engine

    def complete(self, application_id: str, attempt: int | None) -> bool:
        found = self._engine.get(application_id)
        return found.state.final or (attempt is not None and attempt < found.attempt)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


CurrentService = Annotated[Service, Depends(_service)]
