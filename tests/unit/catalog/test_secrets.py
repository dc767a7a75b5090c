"""Sealed secrets open only with the administrator's key, and only under their own name."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from penstock.catalog.connection import DATABASE_VARIABLE
from penstock.catalog.secrets import KEY_FILE_VARIABLE, Sealer, secret_store
from penstock.errors import InvalidInput, StateError
from penstock.home import Home

ONE, OTHER = b"1" * 32, b"2" * 32
CONTENT = {"access_key": "access", "secret_key": "s3cret"}


def test_a_sealed_secret_shows_nothing_and_comes_back_whole() -> None:
    sealed = Sealer(ONE).seal("lake:x", CONTENT)
    assert "s3cret" not in sealed and b"s3cret" not in base64.urlsafe_b64decode(sealed)
    assert Sealer(ONE).open("lake:x", sealed) == CONTENT


def test_keys_are_exchanged_one_after_the_other() -> None:
    sealed = Sealer(ONE).seal("lake:x", CONTENT)
    assert Sealer(OTHER, ONE).open("lake:x", sealed) == CONTENT
    assert Sealer(OTHER).open("lake:x", Sealer(OTHER, ONE).seal("lake:x", CONTENT)) == CONTENT


@pytest.mark.parametrize(
    ("keys", "name", "change"),
    [
        ((OTHER,), "lake:x", lambda text: text),
        ((ONE,), "lake:y", lambda text: text),
        ((ONE,), "lake:x", lambda text: text[:40] + ("A" if text[40] != "A" else "B") + text[41:]),
        ((ONE,), "lake:x", lambda text: text[:-8]),
        ((ONE,), "lake:x", lambda _: ""),
        ((ONE,), "lake:x", lambda _: "gAAAAABÄ"),
    ],
    ids=["another key", "another name", "changed", "cut", "empty", "not base64"],
)
def test_a_writer_of_the_table_cannot_have_secrets_opened(keys: tuple[bytes], name: str, change: object) -> None:
    sealed = change(Sealer(ONE).seal("lake:x", CONTENT))  # type: ignore[operator]
    with pytest.raises(StateError) as refused:
        Sealer(*keys).open(name, sealed)
    assert "s3cret" not in str(refused.value)


def test_a_key_file_holds_a_key_on_each_line_in_either_form_of_base64(tmp_path: Path) -> None:
    key = bytes([251] * 32)
    file = tmp_path / "key"
    file.write_bytes(base64.b64encode(OTHER) + b"\n" + base64.urlsafe_b64encode(key) + b"\n")
    assert Sealer.of_file(file).open("a", Sealer(key).seal("a", CONTENT)) == CONTENT
    assert Sealer(OTHER).open("a", Sealer.of_file(file).seal("a", CONTENT)) == CONTENT


@pytest.mark.parametrize("content", [None, "", "c2hvcnQ=\n", "not base64, but s3cret\n", "ß"])
def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidInput, match=KEY_FILE_VARIABLE) as refused:
        Sealer.of_file(file)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "database", "shared"),
    [(True, True, True), (False, True, False), (True, False, False)],
    ids=["both", "no key", "the embedded database"],
)
def test_secrets_leave_the_state_directory_only_sealed_and_for_an_external_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, key: bool, database: bool, shared: bool
) -> None:
    for name, wanted in ((KEY_FILE_VARIABLE, key), (DATABASE_VARIABLE, database)):
        monkeypatch.setenv(name, "/somewhere") if wanted else monkeypatch.delenv(name, raising=False)
    assert (secret_store(Home(tmp_path)) is not None) is shared
