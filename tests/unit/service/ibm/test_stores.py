"""A body's stores: keys are removed from the settings, and only registered stores are opened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.lake.model import Credentials
from penstock.profiles.check import is_secret
from penstock.service.ibm import stores
from penstock.service.ibm.stores import CosAddress, Store, choose_lake
from tests.unit.service.ibm.dialect_bodies import CEPH, HOME, SALES, application, details

SECRET = "wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "prefix",
    [
        "spark.hadoop.fs.cos.svc.",
        "fs.cos.svc.",
        "spark.hadoop.fs.cos.two.parts.",
        "spark.hadoop.fs.s3a.",
        "spark.hadoop.fs.s3a.bucket.some-bucket.",
        "spark.hadoop.fs.s3a.bucket.some.bucket.",
    ],
)
def test_however_a_body_writes_its_keys_none_is_left_among_the_settings(prefix: str) -> None:
    settings = {f"{prefix}access.key": "AKIA", f"{prefix}secret.key": SECRET, f"{prefix}endpoint": "h", "spark.a": "b"}
    found, left = stores.split_stores(settings)
    assert left == {"spark.a": "b"}
    assert [store.keys for store in found.values()] == [Credentials("AKIA", SECRET)]
    assert SECRET not in repr(found)


def test_no_secret_of_any_store_setting_survives_as_a_setting() -> None:
    settings = {
        "spark.hadoop.fs.cos.svc.access.key": "A",
        "spark.hadoop.fs.cos.svc.secret.key": SECRET,
        "spark.hadoop.fs.cos.svc.session.token": "T",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.stocator.scheme.list": "cos",
        "spark.hadoop.fs.cos.impl": "com.ibm.stocator.fs.ObjectStoreFileSystem",
    }
    _, left = stores.split_stores(settings)
    assert not left
    assert not any(is_secret(key, value) for key, value in left.items())


def test_a_setting_of_the_file_system_that_opens_no_store_stays() -> None:
    settings = {"spark.hadoop.fs.s3a.connection.maximum": "64", "spark.hadoop.fs.s3a.bucket.b.readahead.range": "1m"}
    assert stores.split_stores(settings) == ({}, settings)


@pytest.mark.parametrize("part", ["access.key", "secret.key"])
def test_half_of_a_pair_of_keys_is_refused_without_showing_it(part: str) -> None:
    with pytest.raises(InvalidInput, match="half") as caught:
        stores.split_stores({f"spark.hadoop.fs.cos.svc.{part}": SECRET})
    assert SECRET not in str(caught.value)


def test_keys_that_open_no_store_here_are_refused_without_showing_them() -> None:
    with pytest.raises(InvalidInput) as caught:
        application(details(conf={"spark.hadoop.fs.cos.svc.iam.api.key": SECRET}))
    assert SECRET not in str(caught.value)
    assert "penstock lake add" in caught.value.fix


def test_a_store_is_found_by_its_endpoint_then_its_bucket_then_its_name() -> None:
    lakes = [HOME, SALES, CEPH]
    assert choose_lake({"x": Store("RGW2.example.com:8080")}, [], lakes, HOME).lake == CEPH
    assert choose_lake({}, [CosAddress("sales", "x")], lakes, HOME).lake == SALES
    assert choose_lake({}, [CosAddress("other", "ceph")], lakes, HOME).lake == CEPH
    assert choose_lake({}, [CosAddress("other", "x")], lakes, HOME).lake == HOME
    assert choose_lake({}, [], lakes, HOME).lake == HOME


def test_a_store_nobody_registered_is_not_called() -> None:
    with pytest.raises(InvalidInput, match="is unknown") as caught:
        choose_lake({"meta": Store("http://user:pw@169.254.169.254/")}, [], [HOME, SALES], HOME)
    assert "penstock lake add meta --endpoint https://169.254.169.254" in caught.value.fix
    assert "pw" not in str(caught.value)


def test_one_application_reads_one_store() -> None:
    with pytest.raises(InvalidInput, match="more than one store"):
        choose_lake({}, [CosAddress("sales", "a"), CosAddress("benchmarks", "b")], [HOME, SALES, CEPH], HOME)
    with pytest.raises(InvalidInput, match="more than one store"):
        choose_lake({"a": Store(keys=Credentials("a", "b")), "b": Store(keys=Credentials("c", "d"))}, [], [HOME], HOME)


def test_the_applications_own_address_decides_among_buckets_of_one_store() -> None:
    other = type(SALES)("archive", SALES.endpoints, "archive", "file:archive")
    addresses = [CosAddress("archive", "two"), CosAddress("sales", "one")]
    assert choose_lake({}, addresses, [SALES, other], HOME).lake == other


NAME_PARTS = st.sampled_from(["spark", "hadoop", "fs", "cos", "s3a", "bucket", "svc", "a-b", "SPARK", "stocator", "x"])
KEY_ENDS = st.sampled_from(
    ["access.key", "secret.key", "session.token", "iam.api.key", "password", "Secret.Key", "encryption.key", "token"]
)
KEY_STARTS = st.sampled_from(["spark.hadoop.fs.cos.", "fs.cos.", "spark.hadoop.fs.s3a.", "fs.s3a.bucket.", "spark."])


@given(
    st.dictionaries(
        st.builds(
            lambda start, parts, end: start + "".join(f"{part}." for part in parts) + end,
            KEY_STARTS,
            st.lists(NAME_PARTS, max_size=3),
            KEY_ENDS,
        ),
        st.just(SECRET),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_a_secret_is_called_it_is_taken_out_or_refused(conf: dict[str, str]) -> None:
    try:
        found = application(details(conf=conf))
    except InvalidInput as refusal:
        assert SECRET not in str(refusal)
        return
    left = {key: value for key, value in found.spec.settings.items() if SECRET in value}
    # The engine refuses the secrets that the translation leaves, before it records anything.
    assert all(is_secret(key, value) for key, value in left.items())
    assert SECRET not in str({**found.spec.to_json(), "settings": {}})
