"""Copies of small uploads are used only where they match the digest in the address."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.engine import uploads
from penstock.engine.repository.applications import now
from penstock.engine.uploads import MOST_COPIED_BYTES, UploadCopies
from penstock.errors import LakeError
from penstock.home import Home
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize

LAKE = Lake("lake", (), "bucket", "")
PLACE = uploads.prefix_of("ours")
KEPT = timedelta(days=7)


@pytest.fixture
def copies(tmp_path: Path) -> UploadCopies:
    home = Home(tmp_path / "home")
    home.create()
    return UploadCopies(home, PLACE)


def brought(copies: UploadCopies, content: bytes = b"print()\n", name: str = "job.py") -> str:
    """Return the address of an uploaded file."""
    key = uploads.upload_key(PLACE, hashlib.sha256(content).hexdigest(), name)
    copies.keep(key, len(content), lambda: content)
    return f"{LAKE.root}/{key}"


def of(application: str) -> ApplicationSpec:
    return ApplicationSpec(application, ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1), "a")


def test_a_program_and_what_it_needs_are_read_from_this_machine(copies: UploadCopies) -> None:
    program, module = brought(copies), brought(copies, b"X = 1\n", "module.py")
    asked = replace(of(program), python_files=(module,), files=("/here.txt",), jars=("s3a://bucket/other.jar",))
    given = copies.with_local_copies(asked, LAKE)
    assert Path(given.application).read_bytes() == b"print()\n"
    assert Path(given.application).name == "job.py"
    assert [Path(path).read_bytes() for path in given.python_files] == [b"X = 1\n"]
    assert (given.files, given.jars) == (asked.files, asked.jars)


def test_a_copy_that_was_changed_is_not_used(copies: UploadCopies) -> None:
    address = brought(copies)
    Path(copies.with_local_copies(of(address), LAKE).application).write_bytes(b"import os\n")
    assert copies.with_local_copies(of(address), LAKE).application == address


@pytest.mark.parametrize("end", ["..", f"{'0' * 64}/..", f"{'0' * 64}/job.py", "../../x"])
def test_an_address_without_a_copy_stays_an_address(copies: UploadCopies, end: str) -> None:
    address = f"{LAKE.root}/{PLACE}{end}"
    assert copies.with_local_copies(of(address), LAKE).application == address


def test_what_another_engine_or_lake_was_brought_is_not_ours_to_give(copies: UploadCopies) -> None:
    address = brought(copies)
    assert copies.with_local_copies(of(address), replace(LAKE, bucket="other")).application == address
    elsewhere = address.replace(PLACE, uploads.prefix_of("theirs"))
    assert copies.with_local_copies(of(elsewhere), LAKE).application == elsewhere


def test_a_large_file_is_left_to_the_lake(copies: UploadCopies) -> None:
    address = brought(copies, b"x" * (MOST_COPIED_BYTES + 1))
    assert copies.with_local_copies(of(address), LAKE).application == address


def test_a_full_or_broken_disk_refuses_no_upload(copies: UploadCopies, tmp_path: Path) -> None:
    (tmp_path / "home" / "cache" / "uploads").write_text("a file where the directory should be")
    address = brought(copies)
    assert copies.with_local_copies(of(address), LAKE).application == address


def test_a_lake_that_does_not_give_the_file_refuses_nothing(copies: UploadCopies) -> None:
    def away() -> bytes:
        raise LakeError("The store does not answer")

    copies.keep(uploads.upload_key(PLACE, "0" * 64, "job.py"), 1, away)


def test_copies_that_no_application_names_go_when_they_are_old(copies: UploadCopies) -> None:
    old, named, young = (brought(copies, name.encode(), name) for name in ("old.py", "named.py", "young.py"))
    for address in (old, named):
        os.utime(copies.with_local_copies(of(address), LAKE).application, (0, 0))
    copies.sweep({LAKE.key(named)}, at=now(), kept=KEPT)
    there = [copies.with_local_copies(of(it), LAKE).application != it for it in (old, named, young)]
    assert there == [False, True, True]
