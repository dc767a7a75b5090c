"""Clients of Iceberg's catalog without keys: a real Ceph cluster gives them those of one table and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from botocore.exceptions import ClientError
from pyiceberg.catalog import load_catalog

from penstock.home import Home
from penstock.lake.ceph.bootstrap import ROLE_ARN
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.clients.configuration import Access, LakeClient, configuration
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.s3 import client, error_code, s3_client
from tests.support.iceberg_clients import catalog, duckdb_client, duckdb_extensions
from tests.support.service_process import Served

pytestmark = pytest.mark.root

NAME = "vending"
TEAM = "team-v"


@pytest.fixture(scope="module")
def lake(ceph: Ceph, shared_home: Home) -> Iterator[Lake]:
    """Ceph's lake as the default one of a home, with temporary credentials of a role that opens all of its buckets."""
    theirs, lakes = Lakes(Home(ceph.directory.parent.parent)), Lakes(shared_home)
    on_ceph = theirs.get("ceph")
    sts = Sts(on_ceph.endpoints[0], ROLE_ARN, 900)
    lakes.add(replace(on_ceph, name=NAME, kind="external", sts=sts), theirs.credentials_of(on_ceph))
    lakes.set_default(NAME)
    yield lakes.get(NAME)
    lakes.set_default(EMBEDDED)
    lakes.remove(NAME)


@pytest.fixture(scope="module")
def tokens(lake: Lake, served: Served) -> dict[str, str]:
    """Tokens of the team that owns the tables, to submit and to read."""
    assert lake.sts
    with served.client() as service:
        service.put(f"/v1/instances/{TEAM}", json={}).raise_for_status()
        return {
            scope: service.post("/v1/tokens", json={"name": scope, "scopes": [scope], "instances": [TEAM]})
            .raise_for_status()
            .json()["token"]
            for scope in ("submit", "read")
        }


@pytest.fixture(scope="module")
def tables(served: Served, tokens: dict[str, str]) -> dict[str, str]:
    """The locations of two tables that were made and filled without any keys."""
    owner = catalog(served, tokens["submit"], own_keys=False)
    owner.create_namespace("vended")
    names = ("orders", "treasure")
    # PyArrow's uploads have checksums at their ends, which Ceph 16 refuses.
    with duckdb_client(served, tokens["submit"], own_keys=False) as duck:
        for name in names:
            duck.execute(f"CREATE TABLE lake.vended.{name} AS SELECT range + 1 AS id FROM range(3)")  # noqa: S608
            duck.execute(f"INSERT INTO lake.vended.{name} VALUES (4)")  # noqa: S608
    return {name: owner.load_table(f"vended.{name}").location() for name in names}


def keys_of(served: Served, token: str, name: str) -> Credentials:
    given = catalog(served, token, own_keys=False).load_table(f"vended.{name}").io.properties
    return Credentials(given["s3.access-key-id"], given["s3.secret-access-key"], given["s3.session-token"])


def s3(lake: Lake, keys: Credentials) -> Any:
    return s3_client(lake, keys, lake.endpoints[0])


def sts(lake: Lake, keys: Credentials) -> Any:
    assert lake.sts
    return client("sts", lake, keys, lake.sts.endpoint, attempts=1, read_seconds=30)


def outcome(request: Callable[[], Any]) -> str:
    try:
        request()
    except ClientError as error:
        return error_code(error)
    return "done"


def test_pyiceberg_and_duckdb_read_a_table_with_a_readers_token_and_no_keys(
    served: Served, tokens: dict[str, str], tables: dict[str, str]
) -> None:
    assert tables
    reader = catalog(served, tokens["read"], own_keys=False)
    assert sorted(reader.load_table("vended.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    with duckdb_client(served, tokens["read"], own_keys=False) as duck:
        assert duck.execute("SELECT sum(id) FROM lake.vended.orders").fetchall() == [(10,)]


def test_exported_files_need_no_keys(
    lake: Lake, served: Served, tokens: dict[str, str], tables: dict[str, str], tmp_path: Path
) -> None:
    assert tables
    access = Access(lake, Path("nowhere"), served.url, None, vended=True)
    file = tmp_path / ".pyiceberg.yaml"
    file.write_text(configuration(LakeClient.PYICEBERG, access), encoding="utf-8")
    properties = yaml.safe_load(file.read_text(encoding="utf-8"))["catalog"]["lake"]
    reader = load_catalog("lake", **properties, token=tokens["read"])
    assert reader.load_table("vended.orders").scan().to_arrow().num_rows == 4
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as duck:
        for extension in duckdb_extensions():
            duck.execute(f"LOAD '{extension}'")
        duck.execute("SET VARIABLE penstock_token = $token", {"token": tokens["read"]})
        for statement in duckdb.extract_statements(configuration(LakeClient.DUCKDB, access)):
            if not statement.query.strip().startswith(("INSTALL", "LOAD", "--")) or "ATTACH" in statement.query:
                duck.execute(statement)
        assert duck.execute("SELECT sum(id) FROM lake.vended.orders").fetchall() == [(10,)]


def test_the_credentials_of_a_table_open_no_other_one(
    lake: Lake, served: Served, tokens: dict[str, str], tables: dict[str, str]
) -> None:
    own, other = (tables[name].removeprefix(f"{lake.root}/") for name in ("orders", "treasure"))
    lakes_own = s3(lake, Lakes(served.home).credentials_of(lake))
    treasure = lakes_own.list_objects_v2(Bucket=lake.bucket, Prefix=f"{other}/")["Contents"][0]["Key"]
    keys = keys_of(served, tokens["submit"], "orders")
    thief = s3(lake, keys)
    bucket = {"Bucket": lake.bucket}
    assert outcome(lambda: thief.put_object(**bucket, Key=f"{own}/mine", Body=b"x")) == "done"
    assert outcome(lambda: thief.get_object(**bucket, Key=f"{own}/mine")) == "done"
    assert outcome(lambda: thief.list_objects_v2(**bucket, Prefix=f"{own}/")) == "done"
    copied = {"CopySource": {**bucket, "Key": treasure}}
    thefts = {
        "read": lambda: thief.get_object(**bucket, Key=treasure),
        "look": lambda: thief.head_object(**bucket, Key=treasure),
        "copy": lambda: thief.copy_object(**bucket, **copied, Key=f"{own}/loot"),
        "list": lambda: thief.list_objects_v2(**bucket, Prefix=f"{other}/"),
        "list beside": lambda: thief.list_objects_v2(**bucket, Prefix=own.rpartition("/")[0] + "/"),
        "list all": lambda: thief.list_objects_v2(**bucket),
        "write": lambda: thief.put_object(**bucket, Key=f"{other}/forged", Body=b"x"),
        "write beside": lambda: thief.put_object(**bucket, Key=f"{own}-beside", Body=b"x"),
        "upload": lambda: thief.create_multipart_upload(**bucket, Key=f"{other}/forged"),
        "delete": lambda: thief.delete_object(**bucket, Key=treasure),
        "other bucket": lambda: thief.list_objects_v2(Bucket="ceph-erasure"),
        "policy": lambda: thief.put_bucket_policy(**bucket, Policy="{}"),
        "the role's rights": lambda: sts(lake, keys).assume_role(RoleArn=ROLE_ARN, RoleSessionName="thief"),
        "the user's rights": lambda: sts(lake, keys).get_session_token(),
    }
    succeeded = {
        name: code for name, theft in thefts.items() if (code := outcome(theft)) not in ("AccessDenied", "403")
    }
    assert succeeded == {}
    assert outcome(lambda: lakes_own.head_object(**bucket, Key=treasure)) == "done"


def test_whoever_may_only_read_gets_credentials_that_only_read(
    lake: Lake, served: Served, tokens: dict[str, str], tables: dict[str, str]
) -> None:
    own = tables["orders"].removeprefix(f"{lake.root}/")
    reader = s3(lake, keys_of(served, tokens["read"], "orders"))
    listed = reader.list_objects_v2(Bucket=lake.bucket, Prefix=f"{own}/")["Contents"]
    key = listed[0]["Key"]
    assert outcome(lambda: reader.get_object(Bucket=lake.bucket, Key=key)) == "done"
    assert outcome(lambda: reader.put_object(Bucket=lake.bucket, Key=f"{own}/forged", Body=b"x")) == "AccessDenied"
    assert outcome(lambda: reader.delete_object(Bucket=lake.bucket, Key=key)) == "AccessDenied"
