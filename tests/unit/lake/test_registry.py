import json
import multiprocessing
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput, NotFound, StateError
from penstock.home import Home
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes, normalize_endpoint, normalize_endpoints, validate_lake

SECRET = Credentials("AKIDEXAMPLE", "very%secret;#=/+")


def a_lake(name: str = "sales", **changes: object) -> Lake:
    return Lake.from_json(
        {"name": name, "endpoints": ["http://store:9000"], "bucket": "data", "credentials": "environment", **changes}
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a home, with “ü”")


def test_without_any_lake_the_error_says_how_to_get_one(home: Home) -> None:
    with pytest.raises(NotFound) as caught:
        Lakes(home).get()
    assert "penstock lake up" in caught.value.fix


def test_the_first_lake_is_the_default_and_the_next_is_not(home: Home) -> None:
    lakes = Lakes(home)
    lakes.add(a_lake("one"))
    lakes.add(a_lake("two"))
    assert lakes.get().name == "one"
    lakes.set_default("two")
    assert lakes.get() == lakes.get("two") == a_lake("two")


def test_removing_the_default_leaves_another_one(home: Home) -> None:
    lakes = Lakes(home)
    lakes.add(a_lake("one"))
    lakes.add(a_lake("two"))
    lakes.remove("one")
    assert lakes.get().name == "two"


def test_a_lake_of_one_queues_keys_never_becomes_everybodys_default(home: Home) -> None:
    lakes = Lakes(home)
    scope = {"scope": {"original": "two", "queue": "team"}}
    lakes.add(a_lake("made", **scope))
    assert lakes.default() is None
    lakes.add(a_lake("two"))
    lakes.remove("two")
    assert lakes.default() is None
    with pytest.raises(InvalidInput, match="default"):
        lakes.set_default("made")


@pytest.mark.parametrize("change", [Lakes.get, Lakes.remove, Lakes.set_default])
def test_an_unknown_name_is_answered_with_the_known_ones(home: Home, change: object) -> None:
    lakes = Lakes(home)
    lakes.add(a_lake("sales"))
    with pytest.raises(NotFound) as caught:
        change(lakes, "sails")  # type: ignore[operator]
    assert "sales" in caught.value.why


def test_a_secret_goes_to_a_private_file_and_nowhere_else(home: Home) -> None:
    lake = Lakes(home).add(a_lake(), SECRET)
    assert lake.credentials == "file:sales"
    assert Lakes(home).credentials_of(lake) == SECRET
    holders = [path for path in home.root.rglob("*") if path.is_file() and SECRET.secret_key in path.read_text()]
    assert [path.name for path in holders] == ["credentials"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600


def test_removing_a_lake_removes_its_secret_and_no_other(home: Home) -> None:
    lakes = Lakes(home)
    kept = lakes.add(a_lake("kept"), SECRET)
    gone = lakes.add(a_lake("gone"), Credentials("OTHER", "othersecret"))
    lakes.remove("gone")
    assert lakes.credentials_of(kept) == SECRET
    with pytest.raises(NotFound):
        lakes.credentials_of(gone)
    assert "othersecret" not in (home.lake / "credentials").read_text()


@pytest.mark.parametrize("content", ["{", "[]", '{"lakes": [{"name": "x"}], "default": null}', '{"lakes": 3}'])
def test_a_damaged_registry_is_reported_and_not_overwritten(home: Home, content: str) -> None:
    home.create()
    registry = home.lake / "lakes.json"
    registry.write_text(content)
    for use in (Lakes(home).all, lambda: Lakes(home).add(a_lake())):
        with pytest.raises(StateError) as caught:
            use()
        assert str(registry) in str(caught.value)
    assert registry.read_text() == content


def _add(root: Path, name: str) -> None:
    Lakes(Home(root)).add(a_lake(name), Credentials(name, name))


def test_lakes_added_at_the_same_moment_are_all_kept(home: Home) -> None:
    names = [f"lake{number}" for number in range(6)]
    with multiprocessing.get_context("fork").Pool(6) as pool:
        pool.starmap(_add, [(home.root, name) for name in names])
    assert [lake.name for lake in Lakes(home).all()] == names
    assert all(Lakes(home).credentials_of(lake).access_key == lake.name for lake in Lakes(home).all())


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("http://localhost:9000/", "http://localhost:9000"),
        (" https://s3.example.com ", "https://s3.example.com"),
        ("HTTPS://S3.Example.com:8443", "https://s3.example.com:8443"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_an_endpoint_is_kept_in_one_form(given_text: str, kept: str) -> None:
    assert normalize_endpoint(given_text) == kept


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "localhost:9000",
        "ftp://host",
        "s3a://bucket",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://host/bucket",
        "http://host?x=1",
        "http://my host:9000",
        "http://[::1",
    ],
)
def test_what_is_no_endpoint_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        normalize_endpoint(wrong)
    assert "https://" in caught.value.fix


def test_a_password_in_an_endpoint_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        normalize_endpoint("http://me:hunter2@host")
    assert "hunter2" not in str(caught.value)


def test_gateways_are_kept_in_order_and_once() -> None:
    assert normalize_endpoints(["http://b", "http://a/", "http://b/"]) == ("http://b", "http://a")


def test_gateways_of_one_lake_offer_the_same_protection() -> None:
    with pytest.raises(InvalidInput):
        normalize_endpoints(["http://a", "https://b"])


@given(st.text(max_size=30))
def test_any_text_as_an_endpoint_is_accepted_in_a_stable_form_or_refused_as_bad_input(text: str) -> None:
    try:
        kept = normalize_endpoint(text)
    except InvalidInput:
        return
    assert normalize_endpoint(kept) == kept


@pytest.mark.parametrize("bucket", ["", "ab", "s3://sales", "sales/raw", "Sales", "my_bucket", "-x-", "a..b", "ü" * 5])
def test_a_bucket_spark_could_not_reach_is_refused(bucket: str) -> None:
    with pytest.raises(InvalidInput):
        validate_lake(a_lake(bucket=bucket))


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "a]\n[b", "x" * 64])
def test_a_name_that_would_not_fit_a_file_or_a_section_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        validate_lake(a_lake(name))


def test_the_registry_file_is_plain_json_without_secrets(home: Home) -> None:
    Lakes(home).add(a_lake(), SECRET)
    stored = json.loads((home.lake / "lakes.json").read_text())
    assert stored["default"] == "sales"
    assert SECRET.access_key not in json.dumps(stored)


def test_a_record_of_a_later_release_is_read_without_what_that_one_says_besides() -> None:
    lake = Lake("lake", ("http://127.0.0.1:1",), "bucket", "file:lake", directories_linger=True)
    assert Lake.from_json({**lake.to_json(), "of_later": 1}) == lake
