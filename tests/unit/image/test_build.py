"""The build of a small image: reproducible bytes, its contents, and the bases that it accepts."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.cluster import image_app
from penstock.errors import InvalidInput, MissingRequirement, PenstockError
from penstock.image import base, build, oci
from penstock.image.contents import Entry
from tests.unit.image.ocischemas import validator
from tests.unit.image.test_contents_keystore import store

PYTHON = f"usr/bin/python{build.RUNNING}"
JAVA = "usr/lib/jvm/java-17/bin/java"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reduce the local installation to a module of each part, so that a build is fast."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    packages = tmp_path / "site-packages"
    for name in ("jar", "library", "package"):
        module = packages / name / "module.py"
        module.parent.mkdir(parents=True)
        module.write_text(f"NAME = {name!r}\n", "utf-8")
        entry = Entry(f"opt/penstock/python/{name}/module.py", "file", 0o644, source=module)
        monkeypatch.setattr(
            build, {"jar": "jars", "library": "installed_libraries"}.get(name, name), partial(_only, entry)
        )


def _only(entry: Entry, more: Sequence[str] = ()) -> list[Entry]:
    return [entry]


def a_root(directory: Path, *, made_at: int = 1, reverse: bool = False) -> Path:
    files = {
        PYTHON: b"elf",
        JAVA: b"elf",
        "etc/passwd": b"root:x:0:0::/root:/bin/sh\n",
        "etc/nsswitch.conf": b"passwd: files\n",
        "etc/ssl/certs/java/cacerts": store(made_at),
        "etc/machine-id": b"%d" % made_at,
        "var/log/dpkg.log": b"%d" % made_at,
    }
    for name, content in sorted(files.items(), reverse=reverse):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
        os.utime(path, (made_at, made_at))
    (directory / "usr/bin/java").symlink_to("/" + JAVA)
    (directory / "usr/bin/perl").write_bytes(b"perl")
    (directory / "usr/bin/perl5").hardlink_to(directory / "usr/bin/perl")
    return directory


def packed(root: Path, to: Path) -> Path:
    with tarfile.open(to, "w") as archive:
        archive.add(root, ".")
    return to


def built(to: Path, base: Path | None, steps: list[str] | None = None) -> build.BuiltImage:
    def report(step: str, size: int, seconds: float) -> None:
        assert size > 0
        assert seconds >= 0
        if steps is not None:
            steps.append(step)

    return build.build(to, oci.parse_name("penstock:1"), base, report)


def documents(archive: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return index, manifest and configuration, with their digests verified."""

    def blob(described: dict[str, Any]) -> dict[str, Any]:
        data = read(archive, "blobs/" + described["digest"].replace(":", "/"))
        assert oci.digest(data) == described["digest"]
        assert len(data) == described["size"]
        found: dict[str, Any] = json.loads(data)
        return found

    index = json.loads(read(archive, "index.json"))
    manifest = blob(index["manifests"][0])
    return index, manifest, blob(manifest["config"])


def read(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    """Return the files of a container: all layers, the later over the earlier."""
    found: dict[str, tarfile.TarInfo] = {}
    for described in documents(archive)[1]["layers"]:
        data = io.BytesIO(read(archive, "blobs/" + described["digest"].replace(":", "/")))
        with tarfile.open(fileobj=data, mode="r:gz") as layer:
            found |= {member.name: member for member in layer}
    return found


def test_the_same_contents_are_the_same_bytes_however_and_whenever_the_base_came(tmp_path: Path) -> None:
    first = a_root(tmp_path / "one")
    second = a_root(tmp_path / "two", made_at=1_000_000, reverse=True)
    built(tmp_path / "a.tar", first)
    built(tmp_path / "b.tar", second)
    built(tmp_path / "c.tar", packed(second, tmp_path / "root.tar"))
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes() == (tmp_path / "c.tar").read_bytes()


def test_its_documents_are_whole_and_as_the_specification_wants_them(tmp_path: Path) -> None:
    found = built(tmp_path / "a.tar", a_root(tmp_path / "root"))
    index, manifest, config = documents(tmp_path / "a.tar")
    validator("image-index").validate(index)
    validator("image-manifest").validate(manifest)
    validator("config").validate(config)
    validator("image-layout").validate(json.loads(read(tmp_path / "a.tar", "oci-layout")))
    assert index["manifests"][0]["digest"] == found.digest
    assert config["rootfs"]["diff_ids"] == [layer.diff_id for layer in found.layers]


def test_everything_is_root_s_at_one_time_and_only_the_state_directory_is_the_group_s_to_write(tmp_path: Path) -> None:
    built(tmp_path / "a.tar", a_root(tmp_path / "root"))
    found = members(tmp_path / "a.tar").values()
    assert {(one.uid, one.gid, one.mtime) for one in found} == {(0, 0, build.RELEASED_AT)}
    assert [one.name for one in found if not one.issym() and one.mode & 0o022] == ["var/lib/penstock"]


def test_it_holds_the_base_what_is_installed_compiled_and_what_starts_it(tmp_path: Path) -> None:
    built(tmp_path / "a.tar", a_root(tmp_path / "root"))
    found = members(tmp_path / "a.tar")
    compiled = f"opt/penstock/python/library/__pycache__/module.{sys.implementation.cache_tag}.pyc"
    assert {PYTHON, JAVA, compiled, "opt/penstock/python/jar/module.py", "opt/penstock/bin/entrypoint"} <= set(found)
    assert {"etc/machine-id", "var/log/dpkg.log"}.isdisjoint(found)
    assert found["var/lib/extrausers/passwd"].linkname == "/tmp/passwd"  # noqa: S108
    assert found["usr/bin/perl5"].linkname == "usr/bin/perl"
    assert found["opt/penstock/bin/entrypoint"].mode == 0o755


def test_another_image_can_be_the_base_and_its_layers_stay_as_they_are(tmp_path: Path) -> None:
    built(tmp_path / "base.tar", a_root(tmp_path / "root"))
    below = documents(tmp_path / "base.tar")[1]["layers"]
    (tmp_path / "layout").mkdir()
    with tarfile.open(tmp_path / "base.tar") as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    for stand in (tmp_path / "base.tar", tmp_path / "layout"):
        built(tmp_path / "a.tar", stand)
        _, manifest, config = documents(tmp_path / "a.tar")
        assert manifest["layers"][: len(below)] == below
        assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"]) == len(below) + 3
        validator("config").validate(config)


def test_files_have_the_time_of_source_date_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    built(tmp_path / "a.tar", a_root(tmp_path / "root"))
    assert {one.mtime for one in members(tmp_path / "a.tar").values()} == {1700000000}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(InvalidInput, match="SOURCE_DATE_EPOCH"):
        build.time_of_files()


@pytest.mark.parametrize("content", [b"no tar", b""])
def test_a_base_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "base").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        built(tmp_path / "a.tar", tmp_path / "base")
    assert refused.value.fix
    with pytest.raises(InvalidInput, match="There is no"):
        built(tmp_path / "a.tar", tmp_path / "absent")


def test_a_damaged_image_as_base_is_refused(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    layout.mkdir()
    (layout / "oci-layout").write_text("{}", "utf-8")
    for text in ("", "[", '{"manifests": []}', '{"manifests": [{"digest": "sha256:../../etc/passwd"}]}'):
        (layout / "index.json").write_text(text, "utf-8")
        with pytest.raises(InvalidInput):
            built(tmp_path / "a.tar", layout)


def test_a_base_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "root.tar"
    root = a_root(tmp_path / "root")
    (root / "large").write_bytes(bytes(1 << 20))
    packed(root, whole)
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[: 1 << 19])
    with pytest.raises(InvalidInput, match="cannot be read to its end"):
        built(tmp_path / "a.tar", cut)


def test_nothing_is_left_behind_where_it_fails(tmp_path: Path) -> None:
    to = tmp_path / "out"
    to.mkdir()
    with pytest.raises(PenstockError):
        built(to / "a.tar", tmp_path / "absent")
    with pytest.raises(MissingRequirement, match="cannot be written to"):
        built(tmp_path / "no" / "a.tar", None)
    assert not list(to.iterdir())


def test_without_a_base_one_is_made_of_debian_s_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_root(tmp_path / "root")
    monkeypatch.setattr(base, "make_debian_root", lambda python, to, *, at: packed(root, to))
    steps: list[str] = []
    built(tmp_path / "a.tar", None, steps)
    assert [one.split()[0] for one in steps] == ["root", "layer", "layer", "layer", "layer", "archive"]


def test_without_mmdebstrap_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement) as refused:
        base.make_debian_root("3.11", tmp_path / "root.tar", at=0)
    assert "apt-get install" in refused.value.fix
    with pytest.raises(MissingRequirement, match=r"No release of Debian has Python 3\.99"):
        base.make_debian_root("3.99", tmp_path / "root.tar", at=0)


def test_a_base_that_cannot_be_made_says_why_and_how_to_see_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "mmdebstrap"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for script, reason in (("echo E: no mirror >&2; exit 25", "no mirror"), ("exec sleep 60", "had not ended")):
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        monkeypatch.setattr(base, "_SECONDS", 0.5)
        with pytest.raises(MissingRequirement) as refused:
            base.make_debian_root("3.11", tmp_path / "root.tar", at=0)
        assert reason in refused.value.why
        assert "mmdebstrap --quiet" in refused.value.fix


def test_the_command_prints_the_digest_and_each_layer_s_size(tmp_path: Path) -> None:
    arguments = ["build", "-o", str(tmp_path / "a.tar"), "--base", str(a_root(tmp_path / "root")), "--json"]
    ran = CliRunner().invoke(image_app, arguments)
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["digest"] == documents(tmp_path / "a.tar")[0]["manifests"][0]["digest"]
    assert [layer["layer"] for layer in found["layers"]] == ["root", "spark", "libraries", "penstock"]
    assert found["bytes"] == (tmp_path / "a.tar").stat().st_size
