"""JVMs trust a lake's own authority beside Java's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, MissingRequirement
from penstock.runtime import jvm
from penstock.runtime.jvm import Java
from tests.support.tls_front import certificates


@pytest.fixture(scope="module")
def java() -> Java:
    try:
        return jvm.find_java()
    except MissingRequirement as missing:
        pytest.skip(missing.problem)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates(tmp_path_factory.mktemp("authority"), "localhost").authority


def test_a_trust_store_has_javas_own_authorities_and_the_lakes_and_is_made_once(
    java: Java, authority: Path, tmp_path: Path
) -> None:
    twice = tmp_path / "two.pem"
    twice.write_text(f"what a person wrote, ünd\n{authority.read_text()}\n{authority.read_text()}", encoding="utf-8")
    options = jvm.trust_options(java, twice, cache=tmp_path)
    store = Path(options[0].removeprefix("-Djavax.net.ssl.trustStore="))
    made = store.stat().st_mtime_ns
    # A JVM opens it without a password.
    keytool = [str(java.home / "bin" / "keytool"), "-list", "-keystore", str(store), "-storetype", "JKS"]
    listed = subprocess.run(keytool, input="\n", capture_output=True, text=True, check=True).stdout
    assert listed.count("trustedCertEntry") > 50
    assert "lake-0," in listed
    assert "lake-1," in listed
    assert jvm.trust_options(java, twice, cache=tmp_path) == options
    assert store.stat().st_mtime_ns == made
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_lake_without_an_authority_of_its_own_costs_nothing(java: Java, tmp_path: Path) -> None:
    assert jvm.trust_options(java, None, cache=tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "garbage", "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n", None]
)
def test_what_is_no_certificate_is_refused(java: Java, content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content, encoding="ascii")
    with pytest.raises(InvalidInput, match="contains no valid certificates"):
        jvm.trust_options(java, file, cache=tmp_path)


def test_a_java_without_its_own_authorities_is_an_error(authority: Path, tmp_path: Path) -> None:
    broken = Java(tmp_path / "no-java", "17")
    with pytest.raises(MissingRequirement) as caught:
        jvm.trust_options(broken, authority, cache=tmp_path)
    assert "cacerts" in caught.value.why
