"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from penstock.home import Home

# A busy machine is no defect: a test that takes 300 ms once says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the embedded lake and database up, one for the whole session: starting them is most of a test.

    Its path has a space and a letter outside ASCII, as any user's may.
    """
    from penstock.clusters import machine, pagecache
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("Zuhause für Tests"))
    installation = Installation(home)
    installation.lake_up()
    installation.catalog_up()
    yield home
    list(installation.down())
    # The rest of the home is pytest's to remove; what is in memory is not below it.
    pagecache.remove(machine.page_cache(home))


@pytest.fixture(scope="session")
def records_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with nothing but the embedded database up: seconds where `shared_home` takes many."""
    from penstock.catalog.database import Database
    from penstock.engine.installation import Installation

    home = Home(tmp_path_factory.mktemp("records"))
    home.create()
    Database(home).up()
    yield home
    # What is submitted in it starts the lake, too.
    list(Installation(home).down())
