"""An independent view of the lake, without Penstock or Spark: plain S3 requests, and DuckDB on the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.chaos.history import CommittedRows
from benchmarks.chaos.operations import BASE_ROWS, PARTITIONS, SEED_JOB

# A row is right when its digest is the one that the application computes from the job and the row number.
_ROWS = """
    SELECT job, part, count(*), count(DISTINCT row), count(DISTINCT attempt),
           count(*) FILTER (digest <> md5(concat(job, '/', row)))
    FROM read_parquet('{files}', hive_partitioning = true) GROUP BY job, part
"""
_SEED = """
    COPY (SELECT '{job}' AS job, '' AS attempt, row, md5(concat('{job}', '/', row)) AS digest
          FROM range({rows}) AS numbers(row) WHERE row % {of} = {partition}) TO '{file}' (FORMAT parquet)
"""
_BASE = """
    WITH base AS (SELECT row, row % {of} AS part, md5(concat('{job}', '/', row)) AS digest
                  FROM range({rows}) AS numbers(row))
"""
_AT_REST = re.compile(r"(|part=\d/|part=\d/part-[^/]+\.parquet|_SUCCESS|_penstock_commit/(\d+|[^/]+\.outcome)?)")
"""Keys, relative to the table's, that a table without a writer may hold.

The outcome of a job that another one has finished stays for the job's driver.
"""

_GENERATION = re.compile(r"_penstock_commit/\d+")


@dataclass(frozen=True)
class Leftovers:
    """Keys that belong to nothing, pending uploads, and tables whose journals are not at rest."""

    keys: Sequence[str]
    uploads: Sequence[str]
    journals: Sequence[str]


class LakeView:
    """View past the faulty gateways: `client` is a boto3 client of the store itself."""

    def __init__(self, client: Any, bucket: str, prefix: str, scratch: Path) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._scratch = scratch

    def make_table(self, table: str, rows: int) -> None:
        """Write a table of known rows with a file for each partition; row n is in partition n % 3, as in the jobs."""
        for partition in PARTITIONS:
            file = self._scratch / "seed.parquet"
            duckdb.execute(_SEED.format(job=SEED_JOB, rows=rows, of=len(PARTITIONS), partition=partition, file=file))
            key = f"{self._prefix}/{table}/part={partition}/part-00000-{SEED_JOB}.parquet"
            self._client.upload_file(str(file), self._bucket, key)

    def answer(self, query: str) -> list[list[Any]]:
        """The right answer to a query of the base table, computed without the store."""
        known = _BASE.format(job=SEED_JOB, rows=BASE_ROWS, of=len(PARTITIONS))
        answer = duckdb.execute(known + query.replace("{base}", "base")).fetchall()
        return [list(map(_plain, row)) for row in answer]

    def rows(self, table: str) -> list[CommittedRows]:
        """All rows that a reader of the table sees, counted by job and partition."""
        directory = self._scratch / table
        for key in self.keys(table):
            name = key.removeprefix(f"{self._prefix}/{table}/")
            if name.startswith("part=") and name.endswith(".parquet"):
                target = directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                self._client.download_file(self._bucket, key, str(target))
        if not directory.exists():
            return []
        found = duckdb.execute(_ROWS.format(files=f"{directory}/*/*.parquet")).fetchall()
        return [CommittedRows(job, int(part), *numbers) for job, part, *numbers in found]

    def keys(self, table: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}/{table}/"
        )
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def leftovers(self, tables: Sequence[str]) -> Leftovers:
        keys = {table: self.keys(table) for table in tables}
        short = {table: [key.removeprefix(f"{self._prefix}/{table}/") for key in keys[table]] for table in tables}
        return Leftovers(
            keys=[f"{table}/{key}" for table in tables for key in short[table] if not _AT_REST.fullmatch(key)],
            uploads=self._uploads(),
            journals=[table for table in tables if not self._at_rest(table, short[table])],
        )

    def _at_rest(self, table: str, keys: Sequence[str]) -> bool:
        generations = [key for key in keys if _GENERATION.fullmatch(key)]
        sizes = [
            self._client.head_object(Bucket=self._bucket, Key=f"{self._prefix}/{table}/{key}")["ContentLength"]
            for key in generations
        ]
        return sizes in ([], [0])

    def _uploads(self) -> list[str]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket)
        return [upload["Key"] for page in pages for upload in page.get("Uploads", ())]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else int(value)
