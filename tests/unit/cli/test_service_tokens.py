"""`penstock token create|rotate --output FILE`: a token is shown once, so that no error may lose it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import service
from penstock.errors import InvalidInput, NotFound

COMMANDS = (["create", "me"], ["rotate", "1"])


class Tokens:
    """A token store that counts the secrets it has given out."""

    def __init__(self) -> None:
        self.given = 0

    def create(self, *_: Any, **__: Any) -> tuple[None, str]:
        self.given += 1
        return None, "penstock_1_s3cret"

    def rotate(self, token_id: str) -> tuple[None, str]:
        if token_id != "1":
            raise NotFound(f"There is no token {token_id}")
        return self.create()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Tokens:
    found = Tokens()
    monkeypatch.setattr(service, "server", lambda: None)
    monkeypatch.setattr(service, "_store", lambda: found)
    return found


def run(command: list[str], output: Path) -> Result:
    return CliRunner().invoke(service.token_app, [*command, "-o", str(output)])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_token_is_written_to_a_private_file(tokens: Tokens, tmp_path: Path, command: list[str]) -> None:
    assert run(command, tmp_path / "token").exit_code == 0
    assert (tmp_path / "token").read_text() == "penstock_1_s3cret\n"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["missing/token", "file/token", "file", "link", "x" * 300])
def test_a_file_that_cannot_be_created_loses_no_token(
    tokens: Tokens, tmp_path: Path, command: list[str], name: str
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused = run(command, tmp_path / name).exception
    assert isinstance(refused, InvalidInput)
    assert refused.why and refused.fix
    assert tokens.given == 0
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "elsewhere").exists()


def test_an_unknown_token_leaves_no_empty_file(tokens: Tokens, tmp_path: Path) -> None:
    assert isinstance(run(["rotate", "2"], tmp_path / "token").exception, NotFound)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_explained_with_the_way_to_another_secret(
    tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(service.os, "open", lambda *_: full)
    refused = run(["rotate", "1"], tmp_path / "token").exception
    assert isinstance(refused, InvalidInput)
    assert "penstock token rotate ID" in refused.fix
