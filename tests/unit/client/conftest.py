"""The client's tests talk to the service of the service's tests."""

from tests.unit.service.conftest import stage

__all__ = ["stage"]
