"""The contract of every `ObjectStore`: a test class inherits it and gives the fixture `store`, an empty one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, NotFound
from penstock.lake.model import ObjectStore

AWKWARD_KEYS = [
    "plain",
    "with space/and more",
    'it\'s "quoted"',
    "ünï/日本語/🌊",
    "percent%20+plus&amp=eq?query#hash",
    "dt=2026-11-21/part-0000.c000.zstd.parquet",
    "dots/.hidden/..a",
    "long/" + "x" * 200,
]


class ObjectStoreContract:
    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_what_was_put_under_any_key_is_got_and_listed(self, store: ObjectStore, key: str) -> None:
        content = key.encode()
        store.put(key, content)
        assert store.get(key) == content
        assert [(found.key, found.size) for found in store.list(key)] == [(key, len(content))]

    def test_a_put_replaces(self, store: ObjectStore) -> None:
        for content in (b"a longer first one", b"second", b""):
            store.put("k", content)
            assert store.get("k") == content

    def test_a_file_arrives_and_returns_byte_for_byte_however_large(self, store: ObjectStore, tmp_path: Path) -> None:
        source, target = tmp_path / "source file", tmp_path / "target “file”"
        content = os.urandom(20_000_001)  # three parts of a multipart upload
        source.write_bytes(content)
        store.put("big", source)
        store.download("big", target)
        assert target.read_bytes() == content

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, None, b"0123456789"),
            (3, 4, b"3456"),
            (8, 100, b"89"),
            (7, None, b"789"),
            (0, 1, b"0"),
            (0, 0, b""),
            (10, 1, b""),
            (99, None, b""),
        ],
    )
    def test_a_part_ends_where_the_object_ends(
        self, store: ObjectStore, start: int, length: int | None, expected: bytes
    ) -> None:
        store.put("digits", b"0123456789")
        assert store.get("digits", start=start, length=length) == expected

    def test_a_missing_object_is_not_found_and_leaves_no_file(self, store: ObjectStore, tmp_path: Path) -> None:
        with pytest.raises(NotFound):
            store.get("missing")
        with pytest.raises(NotFound):
            store.download("missing", tmp_path / "target")
        assert not list(tmp_path.iterdir())

    def test_a_failed_download_leaves_the_old_file(self, store: ObjectStore, tmp_path: Path) -> None:
        target = tmp_path / "target"
        target.write_bytes(b"old")
        with pytest.raises(NotFound):
            store.download("missing", target)
        assert target.read_bytes() == b"old"

    def test_a_missing_file_is_the_users_mistake(self, store: ObjectStore, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput):
            store.put("k", tmp_path / "missing")

    @pytest.mark.parametrize("key", ["", "/leading", "x" * 1025, "ü" * 513])
    def test_what_cannot_be_a_key_is_the_users_mistake(self, store: ObjectStore, key: str) -> None:
        with pytest.raises(InvalidInput):
            store.put(key, b"")

    def test_a_listing_is_of_a_prefix_in_order_of_keys_and_crosses_pages(self, store: ObjectStore) -> None:
        keys = sorted(f"many/{number:04d}" for number in range(1100))
        _in_threads(lambda key: store.put(key, b""), keys)
        store.put("other", b"")
        assert [found.key for found in store.list("many/")] == keys
        assert [found.key for found in store.list("many/01")] == keys[100:200]
        assert list(store.list("none")) == []
        store.delete(*keys)
        assert [found.key for found in store.list("")] == ["other"]

    def test_deleting_is_final_and_may_be_repeated(self, store: ObjectStore) -> None:
        store.put("a", b"1")
        store.put("b", b"2")
        store.delete("a", "never was")
        store.delete("a")
        store.delete()
        assert [found.key for found in store.list("")] == ["b"]

    def test_it_may_be_used_by_several_threads_at_once(self, store: ObjectStore) -> None:
        keys = [f"thread/{number}" for number in range(32)]
        _in_threads(lambda key: store.put(key, key.encode() * 1000), keys)
        assert {found.key: store.get(found.key) for found in store.list("thread/")} == {
            key: key.encode() * 1000 for key in keys
        }


def _in_threads(do: object, items: list[str], threads: int = 8) -> None:
    failures: list[BaseException] = []

    def work(share: list[str]) -> None:
        try:
            for item in share:
                do(item)  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(items[number::threads],)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures[0]
