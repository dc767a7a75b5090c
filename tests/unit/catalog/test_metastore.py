"""`hive-site.xml` is valid XML for any password, and safe for a shared metastore."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.connection import DatabaseUrl
from penstock.catalog.metastore import hive_site

printable = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)


def settings(password: str, *, loopback: bool = True) -> dict[str, str]:
    text = hive_site(DatabaseUrl("127.0.0.1", 5432, "metastore", password, "metastore"), loopback=loopback)
    root = ElementTree.fromstring(text)  # noqa: S314 (our own text)
    return {item.findtext("name", ""): item.findtext("value", "") for item in root.iter("property")}


@given(password=printable)
def test_any_password_arrives_as_it_is(password: str) -> None:
    assert settings(password)["javax.jdo.option.ConnectionPassword"] == password


def test_no_application_makes_or_changes_metastore_tables() -> None:
    site = settings("secret")
    assert site["datanucleus.schema.autoCreateAll"] == "false"
    assert site["hive.metastore.schema.verification"] == "true"
    assert site["hive.metastore.schema.verification.record.version"] == "false"


def test_only_the_embedded_server_is_spoken_to_without_tls() -> None:
    assert "sslmode=disable" in settings("secret")["javax.jdo.option.ConnectionURL"]
    assert "sslmode" not in settings("secret", loopback=False)["javax.jdo.option.ConnectionURL"]


def test_the_pool_is_one_that_hive_knows_beside_datanucleus() -> None:
    assert settings("secret")["datanucleus.connectionPoolingType"].lower() in {"bonecp", "dbcp", "hikaricp", "none"}
