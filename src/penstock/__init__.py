"""Penstock runs Apache Spark applications, each on its own throw-away cluster, over one shared data lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from penstock.client.client import Client

__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    """Load `Client` on first access, since every command imports this package and few talk to a service."""
    if name == "Client":
        from penstock.client.client import Client  # noqa: PLC0415

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
