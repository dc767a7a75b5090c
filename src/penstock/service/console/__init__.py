"""The web console: one page for people, made of static files that call the API like any other client."""

from penstock.service.console.assets import router

__all__ = ["router"]
