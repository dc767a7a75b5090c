"""Credentials for one table's files: what they open, and for how long they are given again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import NotFound
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.sts import Lease, Reach
from penstock.service.iceberg.credentials import CredentialVendor, reach_of

OWN = Credentials("AKOWN", "own-secret")
LAKE = Lake("sales", ("http://127.0.0.1:7480",), "data", "file:sales", sts=Sts("http://127.0.0.1:7480", "arn:x", 900))
ORDERS = "s3a://data/warehouse/sales.db/orders"


@pytest.mark.parametrize("location", [ORDERS, f"{ORDERS}/"])
def test_the_reach_is_what_lies_below_the_location_and_not_beside_it(location: str) -> None:
    assert reach_of(LAKE, location, writing=True) == Reach("warehouse/sales.db/orders/")
    assert reach_of(LAKE, location, writing=False) == Reach("warehouse/sales.db/orders/", writing=False)


@pytest.mark.parametrize(
    "location",
    [
        "s3a://data",
        "s3a://data/",
        "s3a://data/warehouse",
        "s3a://data/warehouse/",
        "s3a://data2/warehouse/orders",
        "s3a://dat/a/warehouse/orders",
        "hdfs://data/warehouse/orders",
        "s3a://data/warehouse/../orders",
        "s3a://data/warehouse/./orders",
        "s3a://data/warehouse//orders",
        "s3a://data/warehouse/*",
        "s3a://data/warehouse/order?",
        "s3a://data/warehouse/${aws:username}",
        "s3a://data/warehouse/%2e%2e/orders",
        "s3a://data/warehouse/orders\n",
        "s3a://data/warehouse/bestellungen-für",
        "",
    ],
)
def test_a_location_that_a_policy_could_mistake_is_no_reach(location: str) -> None:
    assert reach_of(LAKE, location, writing=True) is None


class Lakes:
    def __init__(self, lake: Lake | None) -> None:
        self.lake = lake

    def get(self, _: str | None = None) -> Lake:
        if self.lake is None:
            raise NotFound("There is no lake")
        return self.lake

    def client_credentials(self, _: Lake) -> Credentials:
        return OWN


class Store:
    """Issues credentials for 900 seconds of a clock that only tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lavish = False
        self.issued: list[tuple[str, Reach]] = []

    def issue(self, lake: Lake, sts: Sts | None, own: Credentials, user: str, *, reach: Reach) -> Lease:
        assert (lake, sts, own) == (LAKE, LAKE.sts, OWN)
        self.issued.append((user, reach))
        number = len(self.issued)
        return Lease(Credentials(f"AK{number}", f"secret{number}", f"token{number}"), self.now, self.now + 900)

    def gives_more(self, lake: Lake, sts: Sts, lease: Lease) -> bool:
        assert (lake, sts, lease.credentials.access_key) == (LAKE, LAKE.sts, f"AK{len(self.issued)}")
        return self.lavish


def vendor_of(store: Store, lake: Lake | None = LAKE) -> CredentialVendor:
    lakes: Any = Lakes(lake)
    return CredentialVendor(lakes, store.issue, store.gives_more, lambda: store.now)


def test_a_client_gets_the_stores_address_and_the_keys_by_the_protocols_names() -> None:
    assert vendor_of(Store()).configuration(ORDERS, writing=True, user="token-7") == {
        "s3.endpoint": "http://127.0.0.1:7480",
        "s3.region": "us-east-1",
        "client.region": "us-east-1",
        "s3.path-style-access": "true",
        "s3.access-key-id": "AK1",
        "s3.secret-access-key": "secret1",
        "s3.session-token": "token1",
        "s3.session-token-expires-at-ms": "1900000",
    }


def test_credentials_are_given_again_while_half_of_their_time_is_left_and_to_their_user_alone() -> None:
    store = Store()
    vendor = vendor_of(store)

    def key(user: str = "token-7", *, writing: bool = True, location: str = ORDERS) -> str:
        given = vendor.configuration(location, writing=writing, user=user)
        assert given is not None
        return given["s3.access-key-id"]

    assert key() == key() == "AK1"
    assert key("token-8") == "AK2"
    assert key(writing=False) == "AK3"
    assert key(location=f"{ORDERS}2") == "AK4"
    store.now += 449
    assert key() == "AK1"
    store.now += 1
    assert key() == "AK5"


@pytest.mark.parametrize(
    "lake",
    [None, replace(LAKE, sts=None), replace(LAKE, sts=Sts("http://127.0.0.1:7480"))],
    ids=["no lake", "no temporary credentials", "none that can be limited"],
)
def test_a_store_that_cannot_limit_its_credentials_gives_none(lake: Lake | None) -> None:
    store = Store()
    assert vendor_of(store, lake).configuration(ORDERS, writing=True, user="token-7") is None
    assert store.issued == []


def test_credentials_for_which_the_store_gives_others_without_limits_are_not_given_away() -> None:
    store = Store()
    vendor = vendor_of(store)
    store.lavish = True
    assert vendor.configuration(ORDERS, writing=True, user="token-7") is None
    store.lavish = False
    assert vendor.configuration(ORDERS, writing=True, user="token-7") is not None
