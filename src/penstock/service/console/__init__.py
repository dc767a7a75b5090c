"""The web console: one page of static files, which call the API like any other client."""

from penstock.service.console.assets import router

__all__ = ["router"]
