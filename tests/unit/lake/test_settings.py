"""Settings of S3A that follow from a lake's kind of credentials."""

from __future__ import annotations

from dataclasses import replace

from penstock.lake.model import Lake, Sts
from penstock.lake.settings import gateway_settings

LAKE = Lake("lake", ("http://127.0.0.1:1",), "bucket", "file:lake")
BULK_DELETE = "spark.hadoop.fs.s3a.multiobjectdelete.enable"


def test_objects_are_deleted_one_by_one_only_where_the_store_takes_no_more_with_the_credentials_it_issued() -> None:
    sts = Sts("http://127.0.0.1:1", "arn:aws:iam:::role/application")
    assert gateway_settings(replace(LAKE, sts=sts))[BULK_DELETE] == "false"
    assert BULK_DELETE not in gateway_settings(replace(LAKE, sts=replace(sts, deletes_many=True)))
    assert BULK_DELETE not in gateway_settings(LAKE)


def test_only_a_store_that_keeps_directories_is_asked_to_remove_them() -> None:
    linger = "spark.hadoop.fs.s3a.penstock.directories.linger"
    assert gateway_settings(replace(LAKE, directories_linger=True))[linger] == "true"
    assert linger not in gateway_settings(LAKE)
