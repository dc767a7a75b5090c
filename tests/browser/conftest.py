"""Fixtures of a browser, a fake service, and the console opened in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, Page
from tests.support.console.fake_service import TOKEN, FakeService, serving


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser.started(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def service() -> Iterator[FakeService]:
    with serving() as fake:
        yield fake


@pytest.fixture
def page(browser: Browser, service: FakeService) -> Iterator[Page]:
    """Return the console signed in, with all applications shown and the event stream open."""
    opened = browser.open(f"{service.url}#token={TOKEN}")
    opened.until("document.querySelectorAll('.applications tbody tr').length > 5")
    opened.until("document.querySelector('.link-state.on') !== null")
    yield opened
    opened.close()
