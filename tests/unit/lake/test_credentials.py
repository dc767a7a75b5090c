import configparser
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.engines.spark import resolved
from penstock.errors import InvalidInput, NotFound, StateError
from penstock.home import Home
from penstock.lake import credentials as module
from penstock.lake.credentials import (
    CredentialsFile,
    format_ini,
    from_environment,
    parse_lines,
    resolve,
    validate_credentials,
)
from penstock.lake.model import Credentials, Lake
from penstock.lake.settings import ENVIRONMENT, gateway_settings, private_credentials_file, spark_settings
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize

values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
secrets = st.builds(Credentials, values, values, st.none() | values)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    return home


@given(secrets)
def test_any_key_a_store_may_hand_out_survives_the_file(credentials: Credentials) -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(format_ini({"p": credentials}))
    assert parser["p"]["aws_access_key_id"] == credentials.access_key
    assert parser["p"]["aws_secret_access_key"] == credentials.secret_key
    assert parser["p"].get("aws_session_token") == credentials.session_token


@pytest.mark.parametrize("value", ["", " ", "a b", "a\nb", "a\n[other]", "schlüssel", "tab\t"])
def test_a_value_that_would_break_the_file_or_a_header_is_refused_without_repeating_it(value: str) -> None:
    for credentials in (Credentials(value, "secret"), Credentials("key", value)):
        with pytest.raises(InvalidInput) as caught:
            validate_credentials(credentials)
        assert len(value) < 2 or value not in str(caught.value)


def test_standard_input_gives_two_or_three_lines() -> None:
    assert parse_lines("key\nsecret\n") == Credentials("key", "secret")
    assert parse_lines("key\r\nsecret\r\ntoken") == Credentials("key", "secret", "token")
    for wrong in ("", "key", "a\nb\nc\nd"):
        with pytest.raises(InvalidInput):
            parse_lines(wrong)


def test_half_an_environment_is_none() -> None:
    assert from_environment({"AWS_ACCESS_KEY_ID": "a"}) is None
    assert from_environment({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) == Credentials("a", "b")


def test_credentials_never_show_themselves() -> None:
    credentials = Credentials("key", "secret", "token")
    assert "secret" not in f"{credentials!r} {credentials}"


@pytest.mark.parametrize("other", ["put", "remove"])
def test_two_changes_at_once_lose_no_secret(home: Home, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    stored, write = CredentialsFile(home), module.write_atomically
    stored.put("old", Credentials("old", "secret"))
    change = (lambda: stored.put("b", Credentials("b", "secret"))) if other == "put" else (lambda: stored.remove("old"))
    second = threading.Thread(target=change)

    def overtaken(path: Path, content: str) -> None:
        """Let another change come between the first one's read and write, unless it has to wait."""
        monkeypatch.setattr(module, "write_atomically", write)
        second.start()
        second.join(0.05)
        write(path, content)

    monkeypatch.setattr(module, "write_atomically", overtaken)
    stored.put("a", Credentials("a", "secret"))
    second.join()
    found = {profile for profile in ("old", "a", "b") if stored.get(profile)}
    assert found == ({"old", "a", "b"} if other == "put" else {"a"})


def test_a_damaged_credentials_file_is_reported_without_its_content(home: Home) -> None:
    (home.lake / "credentials").write_text("[embedded]\nsupersecret\n")
    with pytest.raises(StateError) as caught:
        CredentialsFile(home).get("embedded")
    assert "supersecret" not in str(caught.value)


@pytest.mark.parametrize("reference", ["file:gone", "environment", "aws:gone"])
def test_a_reference_to_nothing_says_how_to_get_credentials(
    home: Home, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home.root / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home.root / "none"))
    with pytest.raises(NotFound) as caught:
        resolve(home, reference)
    assert caught.value.fix


def test_a_profile_of_the_users_aws_files_is_resolved_at_use(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    files = home.root / "aws"
    files.write_text(format_ini({"ceph": Credentials("k", "s%")}))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files))
    assert resolve(home, "aws:ceph") == Credentials("k", "s%")


def test_spark_settings_hold_the_way_to_the_store_and_no_secret() -> None:
    lake = Lake("x", ("https://a:1", "https://b:1"), "data", "file:x", region="eu-1", path_style=False)
    settings = spark_settings(lake)
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "https://a:1"
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "false"
    assert settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "true"
    assert settings["spark.hadoop.fs.s3a.endpoint.region"] == "eu-1"
    assert not any("key" in name for name in settings)


def test_every_gateway_of_a_lake_is_used_and_the_first_is_s3as_own() -> None:
    lake = Lake("x", ("https://a:1", "https://b:1"), "data", "file:x")
    assert gateway_settings(lake)["spark.hadoop.fs.s3a.penstock.endpoints"] == "https://a:1,https://b:1"
    spec = ApplicationSpec("/a.py", ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "a")
    assert resolved(spec, lake).values().items() >= {**spark_settings(lake), **gateway_settings(lake)}.items()


def test_the_private_file_has_the_profile_the_environment_names() -> None:
    content = private_credentials_file(Credentials("key", "secret"))
    assert f"[{ENVIRONMENT['AWS_PROFILE']}]" in content
    assert "secret" in content
