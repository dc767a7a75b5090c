"""Addresses of databases: every client receives the parsed parts, and no text shows the password."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from penstock.catalog.connection import DatabaseUrl
from penstock.errors import InvalidInput

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


@given(user=words, password=words, port=st.integers(1, 65535), dbname=words)
def test_every_client_gets_the_same_login_whatever_characters_it_has(
    user: str, password: str, port: int, dbname: str
) -> None:
    text = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@db.example:{port}/{quote(dbname, safe='')}"
    url = DatabaseUrl.parse(text)
    assert (url.host, url.port, url.user, url.password, url.dbname) == ("db.example", port, user, password, dbname)
    other = url.sqlalchemy()
    assert (other.host, other.port, other.username, other.password) == ("db.example", port, user, password)
    assert other.database == dbname


@given(password=st.text(st.characters(categories=("Lu", "Nd")), min_size=9, max_size=12))
def test_the_password_is_in_no_text_made_for_people_or_for_an_argument(password: str) -> None:
    url = DatabaseUrl("db.example", 5432, "me", password, options=(("sslmode", "require"),))
    assert all(password not in shown for shown in (repr(url), str(url), url.jdbc(), url.libpq(), str(url.sqlalchemy())))


def test_a_url_without_port_and_database_means_the_usual_ones() -> None:
    url = DatabaseUrl.parse("postgres://me:secret@db.example")
    assert (url.port, url.dbname) == (5432, "postgres")


def test_an_ipv6_host_keeps_its_brackets() -> None:
    assert DatabaseUrl.parse("postgresql://me@[::1]:5/x").jdbc() == "jdbc:postgresql://[::1]:5/x"


@pytest.mark.parametrize("path", ["/etc/my ca.pem", "/etc/a+b.pem", "/etc/100%25.pem"])
def test_a_certificate_whose_path_has_a_space_or_a_plus_sign_is_found_by_libpq(path: str) -> None:
    url = DatabaseUrl("db.example", 5432, "me", "secret", options=(("sslmode", "verify-full"), ("sslrootcert", path)))
    assert conninfo_to_dict(url.libpq())["sslrootcert"] == path
    assert DatabaseUrl.parse(url.libpq()).options == url.options


def test_a_plus_sign_in_an_address_is_a_plus_sign_as_libpq_reads_it() -> None:
    text = "postgresql://me:a+b@db.example/x?sslrootcert=/etc/a+b.pem"
    url, libpqs = DatabaseUrl.parse(text), conninfo_to_dict(text)
    assert (url.password, dict(url.options)["sslrootcert"]) == (libpqs["password"], libpqs["sslrootcert"])


def test_the_tls_options_reach_every_client() -> None:
    url = DatabaseUrl.parse("postgresql://me:secret@db.example/x?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    for text in (url.jdbc(), url.libpq(), str(url.sqlalchemy())):
        assert "sslmode=verify-full" in text
        assert "ca.pem" in text


@pytest.mark.parametrize(
    "text",
    [
        "mysql://me:hunter2@db.example/x",
        "postgresql://db.example/x?password=hunter2",
        "postgresql://me:hunter2@db.example:port/x",
        "postgresql://me:hunter2@db.example/x?application_name=hunter2",
        "postgresql://me:hunter2@/x",
        "hunter2",
    ],
)
def test_an_unusable_url_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        DatabaseUrl.parse(text)
    assert "hunter2" not in str(refused.value)
    assert refused.value.fix


def test_what_cannot_be_read_is_named_by_its_variable() -> None:
    with pytest.raises(InvalidInput) as raised:
        DatabaseUrl.parse("mysql://me:hunter2@db.example/x", variable="PENSTOCK_CATALOG_DATABASE_URL")
    assert "PENSTOCK_CATALOG_DATABASE_URL" in raised.value.problem
    assert "hunter2" not in str(raised.value)
