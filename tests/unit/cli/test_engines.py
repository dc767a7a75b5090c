"""`penstock engines`: what is installed, and the download that is asked about first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.machine import engines_app
from penstock.engine.engines.registry import ENGINES
from penstock.engine.engines.trino import installation
from penstock.errors import InvalidInput


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "trino"
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(found))
    return found


def penstock_engines(*arguments: str, answer: str = "") -> tuple[int, str]:
    ran = CliRunner().invoke(engines_app, arguments, input=answer)
    if isinstance(ran.exception, InvalidInput):
        raise ran.exception
    return ran.exit_code, ran.output


def made(place: Path) -> None:
    for part in ("lib", "plugin/iceberg"):
        (place / part).mkdir(parents=True)


def test_the_list_says_which_engine_is_there_and_how_to_get_the_others(place: Path) -> None:
    found = {one["name"]: one for one in json.loads(penstock_engines("list", "--json")[1])}
    assert list(found) == list(ENGINES)
    assert found["trino"]["installed"] is False
    assert found["trino"]["fix"].startswith("penstock engines install trino")
    assert "not installed" in penstock_engines("list")[1]
    made(place)
    assert "not installed" not in penstock_engines("list")[1]


def test_nothing_is_downloaded_before_its_size_is_agreed_to(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def install(progress: Callable[[int], None], repository: str) -> None:
        progress(installation.DOWNLOAD_BYTES)
        asked.append(repository)
        made(place)

    monkeypatch.setattr(installation, "install", install)
    code, said = penstock_engines("install", "trino", answer="n\n")
    assert (code, asked) == (1, [])
    assert "Download 540 MB from https://" in said
    code, said = penstock_engines("install", "trino", "--yes", "--repository", "https://mirror.example")
    assert (code, asked) == (0, ["https://mirror.example"])
    assert f"Trino {installation.VERSION} is in {place}" in said
    assert "already" in penstock_engines("install", "trino")[1]
    assert len(asked) == 1


def test_an_engine_that_pip_brings_is_not_downloaded() -> None:
    with pytest.raises(InvalidInput, match="nothing to download for “sail”"):
        penstock_engines("install", "sail")
