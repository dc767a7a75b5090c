"""What a driver tells of itself in its cluster's directory; its own pages, and how it is asked to open them."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.clusters.base import WebInterface
from penstock.home import write_once

WANTED = "ui.wanted"
"""In the cluster's directory: the key that the driver demands of whoever looks at the pages it opened for this file."""


@dataclass(frozen=True)
class Endpoint:
    """`pages_url` is empty where the driver has not opened any."""

    driver_url: str
    spark_application_id: str
    pages_url: str


def endpoint(cluster: Path) -> Endpoint | None:
    """None while the driver has no context."""
    try:
        lines = (cluster / "endpoint").read_text(encoding="utf-8").split("\n")
        return Endpoint(lines[0], lines[1], lines[2])
    except (FileNotFoundError, IndexError):
        return None


def look(cluster: Path, told: Endpoint) -> WebInterface | None:
    """Where the driver says that its pages are, on its own machine; None where it has none, and is asked for them now.

    A driver runs users' code, which may tell of any port.
    """
    if not told.pages_url:
        # A cluster that is being removed opens nothing any more.
        with contextlib.suppress(FileNotFoundError):
            write_once(cluster / WANTED, secrets.token_urlsafe(32))
        return None
    port = _port(told.pages_url)
    return None if port is None else WebInterface("127.0.0.1", port, key=_key(cluster))


def _key(cluster: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return (cluster / WANTED).read_text(encoding="ascii")
    return None


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None
