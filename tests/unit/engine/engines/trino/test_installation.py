"""Trino is installed as a whole or not at all: from a slow, wrong or silent repository, and onto a full disk."""

from __future__ import annotations

import errno
import hashlib
import io
import shutil
import tarfile
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from penstock.engine.engines.trino import installation
from penstock.engine.engines.trino.installation import Archive, install, is_installed, require_installed
from penstock.errors import MissingRequirement

SHARED, OWN = b"the same jar", b"its own jar"


def tar() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in ("server/lib/shared.jar", "server/lib/../../escaped", "server/bin/launcher", "server/lib/"):
            member = tarfile.TarInfo(name)
            member.size = len(SHARED)
            archive.addfile(member, io.BytesIO(SHARED))
    return content.getvalue()


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("shared.jar", "own.jar", "snowflake-jdbc-1.jar", "netty-osx-x86_64.jar"):
            archive.writestr(f"plugin/{name}", SHARED if name == "shared.jar" else OWN)
        archive.writestr("plugin/../../escaped", OWN)
    return content.getvalue()


CONTENTS = {"a/server.tar.gz": tar(), "a/plugin.zip": zipped()}


class Repository:
    """A repository with these contents, as an httpx transport."""

    def __init__(self) -> None:
        self.contents = dict(CONTENTS)
        self.asked: list[str] = []
        self.silent = False

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if self.silent:
            raise httpx.ConnectTimeout("timed out")
        content = next((content for path, content in self.contents.items() if request.url.path.endswith(path)), None)
        return httpx.Response(404) if content is None else httpx.Response(200, stream=httpx.ByteStream(content))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_TRINO_HOME", raising=False)
    return tmp_path / "penstock"


@pytest.fixture
def repository(place: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    found = Repository()
    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **given: client(**given, transport=httpx.MockTransport(found.answer)))
    archives = [
        Archive(path, len(content), hashlib.sha256(content).hexdigest(), root, to)
        for (path, content), root, to in zip(
            CONTENTS.items(), ("server/lib/", "plugin/"), ("lib", "plugin/iceberg"), strict=True
        )
    ]
    monkeypatch.setattr(installation, "ARCHIVES", archives)
    return found


def installed(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


def test_the_server_and_the_plug_in_are_unpacked_without_what_nobody_needs(place: Path, repository: Repository) -> None:
    came: list[int] = []
    install(came.append, "https://mirror.example/")
    root = f"trino-{installation.VERSION}"
    files = ("lib/shared.jar", "plugin/iceberg/own.jar", "plugin/iceberg/shared.jar")
    assert installed(place) == ["install.lock", *(f"{root}/{file}" for file in files)]
    assert (place / root / "lib" / "shared.jar").samefile(place / root / "plugin" / "iceberg" / "shared.jar")
    assert sum(came) == sum(map(len, CONTENTS.values()))
    assert repository.asked == ["https://mirror.example/a/server.tar.gz", "https://mirror.example/a/plugin.zip"]

    require_installed()
    install(came.append, "https://mirror.example/")
    assert len(repository.asked) == 2


def test_what_a_killed_installation_left_is_removed_by_the_next(place: Path, repository: Repository) -> None:
    left = place / f"trino-{installation.VERSION}.unfinished-abc" / "lib"
    others = place / f"trino-{installation.VERSION}.mine"
    for directory in (left, others):
        directory.mkdir(parents=True)
    install(lambda _: None)
    assert not left.exists()
    assert others.is_dir()


def test_a_new_volume_has_the_server_in_a_directory_of_its_own(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(volume))
    assert not is_installed()
    install(lambda _: None)
    server = volume / f"trino-{installation.VERSION}"
    assert is_installed()
    assert installation.directory() == server
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(server))
    assert installation.directory() == server


def test_a_broken_server_is_neither_used_nor_overwritten(place: Path, repository: Repository) -> None:
    mine = place / f"trino-{installation.VERSION}" / "lib" / "mine.jar"
    mine.parent.mkdir(parents=True)
    mine.touch()
    with pytest.raises(MissingRequirement, match="Trino was not installed") as found:
        install(lambda _: None)
    assert found.value.fix.startswith("remove it")
    assert mine.exists()
    assert not is_installed()
    assert repository.asked == []


def refused(place: Path) -> MissingRequirement:
    with pytest.raises(MissingRequirement) as found:
        install(lambda _: None)
    assert installed(place) == ["install.lock"]
    assert not is_installed()
    return found.value


def test_another_file_than_the_known_one_is_not_installed(place: Path, repository: Repository) -> None:
    repository.contents["a/plugin.zip"] = b"another"
    assert "plugin.zip is another file" in refused(place).why


def test_a_repository_without_the_file_is_named(place: Path, repository: Repository) -> None:
    del repository.contents["a/plugin.zip"]
    error = refused(place)
    assert "404" in error.why
    assert "--repository" in error.fix


def test_a_repository_that_does_not_answer_is_an_error(place: Path, repository: Repository) -> None:
    repository.silent = True
    assert refused(place).why == "timed out"


def test_a_disk_without_room_is_an_error_before_anything_comes(
    place: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 500_000_000))
    assert "has 500 MB" in refused(place).why
    assert repository.asked == []


@pytest.mark.parametrize("step", ["_untar", "_unzip"])
def test_a_disk_that_fills_up_on_the_way_leaves_nothing(
    place: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real: Callable[..., None] = getattr(installation, step)

    def full(*given: Path) -> None:
        real(*given)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(installation, step, full)
    error = refused(place)
    assert error.problem == "Trino could not be installed"
    assert "No space left on device" in error.why


def test_without_it_the_fix_is_the_command(place: Path) -> None:
    with pytest.raises(MissingRequirement) as found:
        require_installed()
    assert found.value.fix.startswith("penstock engines install trino")
