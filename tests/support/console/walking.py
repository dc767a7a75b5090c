"""Navigation in the console, and waits for its content."""

from __future__ import annotations

from tests.support.browser import Page
from tests.support.console import world

ALL = {item["name"]: item["id"] for item in world.applications()}
PLACES = [
    "applications",
    f"application/{ALL['nightly-ingest']}",
    f"application/{ALL['churn-model']}",
    f"application/{ALL['churn-model']}/logs",
    f"application/{ALL['tpcds-q72']}/events",
    f"application/{ALL['tpcds-q72']}/request",
    f"run?from={ALL['tpcds-q72']}",
    "queue",
    "tables",
    "tables/tpcds.store_sales",
    "lake",
    "lab",
    "sessions",
    "instances",
    "tokens",
]
SHOWN = "document.querySelector('.view h1')?.textContent"


def goes(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = '/{place}'")
    name = place.split("/", 1)[0].split("?", 1)[0]
    page.until(f"document.querySelector('.view.{name} h1') && document.querySelector('.view').textContent.length > 40")


def shows(page: Page, text: str) -> None:
    page.until(f"document.body.innerText.includes({text!r})")
