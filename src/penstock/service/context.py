"""What every route works with: the engine, who may do what, and whether the service is about to end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from penstock.engine.engine import Engine
from penstock.engine.repository.applications import now
from penstock.engine.retention import Retention
from penstock.home import Home
from penstock.service.browsergrants import BrowserGrants
from penstock.service.feed import Feed
from penstock.service.happenings import Happenings
from penstock.service.listening import PORT
from penstock.service.metrics import Counts, Metrics
from penstock.service.news import News
from penstock.service.ourpaths import OurPaths
from penstock.service.sparkui import SparkOrigin, SparkUi
from penstock.service.tails import Tails
from penstock.service.underway import Bounds, UnderWay

if TYPE_CHECKING:
    from penstock.engine.tokens import TokenStore


@dataclass
class Service:
    """Making one starts nothing. `closing` is set once the service is to end: streams finish, readiness says no."""

    home: Home
    engine: Engine
    tokens: TokenStore
    retention: Retention = field(default_factory=Retention)
    spark_origin: SparkOrigin = field(default_factory=lambda: SparkOrigin(PORT + 1))
    bounds: Bounds = field(default_factory=Bounds)
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.tails = Tails(_Logs(self.engine), closing=self.closing.is_set)
        self.news = News(self.engine.get, closing=self.closing)
        self.metrics = Metrics(self._counts)
        self.feed = Feed(Happenings(self), closing=self.closing.is_set)
        self.paths = OurPaths(self.home)
        self.browser_grants = BrowserGrants(self.tokens, now)
        self.under_way = UnderWay(self.bounds)
        self.spark_ui = SparkUi(self.tokens, now)

    def tell(self, application_id: str) -> None:
        """An application changed. Called on the event loop."""
        self.news.tell(application_id)
        self.feed.tell(application_id)

    def tell_all(self) -> None:
        """Any may have changed. Called on the event loop."""
        self.news.tell_all()
        self.feed.tell_all()

    def _counts(self) -> Counts:
        found = self.engine.counts()
        return {(name, state.value): number for name, states in found.items() for state, number in states.items()}


class _Logs:
    """The engine as what `Tails` reads."""

    def __init__(self, engine: Engine) -> None:
        self.piece = engine.piece
        self._engine = engine

    def complete(self, application_id: str, attempt: int | None) -> bool:
        found = self._engine.get(application_id)
        return found.state.final or (attempt is not None and attempt < found.attempt)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(_service)]
