"""Iceberg tables beside all others in the catalog, without a setting, and changed by two applications at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from sqlalchemy import text

from penstock.catalog.database import METASTORE, Database
from penstock.catalog.tables import Table
from penstock.cli.catalog import tables
from penstock.cli.catalog.index import records
from penstock.home import Home
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.lake.s3 import open_store
from tests.support.command import SMALL, Command
from tests.support.waiting import within

MAKE = """
CREATE DATABASE ice;
CREATE TABLE ice.plain USING parquet AS SELECT id, id * 2 AS twice FROM range(10);
CREATE TABLE ice.orders (id BIGINT, name STRING, at TIMESTAMP) USING iceberg PARTITIONED BY (bucket(4, id), days(at));
INSERT INTO ice.orders
  SELECT id, concat('n', id), TIMESTAMP'2026-01-01 00:00:00' + make_dt_interval(CAST(id AS INT)) FROM range(10);
ALTER TABLE ice.orders CREATE TAG before;
ALTER TABLE ice.orders ADD PARTITION FIELD truncate(name, 1);
-- A comment before /* and another within
ALTER TABLE ice.orders WRITE ORDERED BY id
"""
CHANGE = """
UPDATE ice.orders SET name = 'changed' WHERE id = 1;
DELETE FROM ice.orders WHERE id >= 8;
MERGE INTO ice.orders o USING (SELECT id, twice FROM ice.plain WHERE id IN (2, 9)) p ON o.id = p.id
  WHEN MATCHED THEN UPDATE SET name = concat('merged', p.twice)
  WHEN NOT MATCHED THEN INSERT (id, name, at) VALUES (p.id, 'new', TIMESTAMP'2026-02-01 00:00:00');
ALTER TABLE ice.orders CREATE BRANCH trial;
INSERT INTO ice.orders.branch_trial VALUES (100, 'trial', NULL);
CREATE OR REPLACE TABLE ice.copy USING iceberg AS SELECT /*+ REPARTITION_BY_RANGE(9, id) */ id FROM ice.orders;
ALTER TABLE ice.copy RENAME TO ice.renamed;
CALL system.rewrite_data_files(table => 'ice.orders', strategy => 'sort', sort_order => 'id DESC NULLS LAST')
"""
ASK = """
SELECT id, name FROM ice.orders WHERE id IN (0, 1, 2, 9) ORDER BY id;
SELECT count(*) FROM ice.orders WHERE at < TIMESTAMP'2026-01-03 00:00:00';
SELECT count(*) FROM ice.orders VERSION AS OF 'before';
SELECT count(*) FROM ice.orders.branch_trial;
SELECT count(*) > 4 FROM ice.orders.snapshots;
SELECT sum(p.twice) FROM ice.orders o JOIN ice.plain p USING (id);
SELECT count(*) FROM ice.renamed;
SELECT sum(r.id) FROM ice.renamed r JOIN ice.orders o ON r.id = o.id WHERE o.name = 'changed';
SHOW TABLES IN ice
"""
STAYS = """
SELECT count(*) AS rows FROM ice.orders;
SELECT count(*) AS rows FROM ice.orders VERSION AS OF 'before';
SELECT count(*) AS rows FROM ice.orders.branch_trial
"""
OUTSIDE = "CREATE TABLE ice.outside USING parquet LOCATION '{root}/outside' AS SELECT * FROM ice.plain"
CONVERTED = """
INSERT INTO ice.twin VALUES (100, 200);
INSERT INTO ice.outside VALUES (100, 200);
SELECT sum(twice) AS sum FROM ice.twin;
SELECT sum(twice) AS sum FROM ice.plain;
SELECT sum(twice) AS sum FROM ice.outside
"""
DROP = """
DROP TABLE ice.orders PURGE;
DROP TABLE ice.twin;
DROP TABLE ice.outside PURGE;
DROP TABLE ice.plain;
DROP TABLE ice.renamed;
DROP DATABASE ice
"""
MAKE_COUNTS = """
CREATE DATABASE IF NOT EXISTS raced;
CREATE TABLE IF NOT EXISTS raced.counts (writer STRING, number BIGINT) USING iceberg
  TBLPROPERTIES ('commit.retry.num-retries' = '50', 'write.merge.isolation-level' = 'snapshot')
"""
INSERT = "INSERT INTO raced.counts VALUES ('{writer}', {number})"
MERGE = """
MERGE INTO raced.counts c USING (SELECT '{writer}' AS writer, {number}L AS number) s
  ON c.writer = s.writer AND c.number = s.number
  WHEN MATCHED THEN UPDATE SET number = c.number + 100
"""
# A database as Hive's metastore records it, and the number of sessions that wait for another one's transaction.
CREATED = """
INSERT INTO "DBS" ("DB_ID", "DESC", "DB_LOCATION_URI", "NAME", "OWNER_NAME", "OWNER_TYPE")
VALUES (1000000, '', :location, 'won', 'root', 'USER')
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
REFUSED = "CREATE OR REPLACE TABLE ice.plain USING iceberg AS SELECT 1 AS id"


def test_iceberg_tables_are_made_changed_and_asked_beside_all_others(penstock: Command, shared_home: Home) -> None:
    answers = penstock.sql(f"{MAKE};{CHANGE};{ASK};{REFUSED}", fails=True)
    assert answers.rows[-9:] == [
        [[0, "n0"], [1, "changed"], [2, "merged4"], [9, "new"]],
        [[2]],
        [[10]],
        [[10]],
        [[True]],
        [[2 * (sum(range(8)) + 9)]],
        [[9]],
        [[1]],
        [["ice", "orders", False], ["ice", "plain", False], ["ice", "renamed", False]],
    ]
    # The key of the join above is in one file.
    assert answers.skipping["files_skipped"] == 8
    assert "ice.plain is not an Iceberg table, and cannot be replaced by one in one step" in answers.errors
    orders, plain = (
        Table.from_json(json.loads(penstock.ok("tables", "show", f"ice.{name}", "--json")))
        for name in ("orders", "plain")
    )
    assert (orders.format, orders.rows, plain.format) == ("iceberg", 9, "parquet")
    assert [column.type for column in orders.columns] == ["bigint", "string", "timestamp"]
    assert orders.location.startswith(f"{Lakes(shared_home).get(EMBEDDED).root}/warehouse/ice.db/orders-")

    later, renamed = datetime.now(timezone.utc) + timedelta(hours=1), replace(orders, name="renamed")
    statements = [
        *tables.maintenance(renamed, timedelta(0), dry_run=True, now=later),
        *tables.maintenance(renamed, timedelta(0), dry_run=False, now=later),
        *tables.maintenance(orders, timedelta(0), dry_run=False, now=later),
    ]
    converting = [
        tables.conversion(plain, "ice.twin"),
        OUTSIDE.format(root=Lakes(shared_home).get(EMBEDDED).root),
        tables.conversion(replace(plain, name="outside", kind="external"), None),
    ]
    ran = penstock.sql(";".join([*statements, STAYS, *converting, CONVERTED])).results
    exit_code, _, refused = penstock.run("tables", "maintain", "ice.twin")
    assert exit_code != 0
    assert "ice.twin cannot be maintained" in refused, "it shares its files with ice.plain"
    penstock.sql(DROP)
    (small, old, orphans, joined, _, expired, deleted, _, _, orders_expired, _, *rest) = map(records, ran)
    stay, (twin, _, outside, _, _, *sums) = rest[:3], rest[3:11]
    assert (orphans, deleted) == ([], [])
    assert small[0]["joined_files"] == joined[0]["rewritten_data_files_count"] >= 5
    assert (old[0]["snapshots"], expired[0]["deleted_manifest_lists_count"]) == (0, 2)
    assert orders_expired[0]["deleted_manifest_lists_count"] > 3
    assert stay == [[{"rows": 9}], [{"rows": 10}], [{"rows": 10}]]
    assert twin[0]["imported_files_count"] == outside[0]["migrated_files_count"] >= 1
    assert sums == [[{"sum": 290}], [{"sum": 90}], [{"sum": 290}]]


def test_two_applications_that_make_and_change_one_table_at_once_lose_no_row(penstock: Command) -> None:
    def writes(writer: str) -> None:
        changes = [*((INSERT, number) for number in range(3)), *((MERGE, number) for number in range(2))]
        made = (change.format(writer=writer, number=number) for change, number in changes)
        penstock.ok("sql", *SMALL, ";".join([MAKE_COUNTS, *made]))

    with ThreadPoolExecutor(2) as threads:
        for written in [threads.submit(writes, writer) for writer in ("one", "two")]:
            written.result()
    rows = penstock.sql("""
        SELECT writer, sort_array(collect_list(number)) FROM raced.counts GROUP BY writer ORDER BY writer;
        SELECT count(*) FROM raced.counts.snapshots;
        DROP TABLE raced.counts PURGE;
        DROP DATABASE raced
    """).rows
    numbers = [2, 100, 101]
    assert rows == [[["one", numbers], ["two", numbers]], [[10]]]


def test_a_creation_that_loses_its_race_takes_nothing_of_the_winner(penstock: Command, shared_home: Home) -> None:
    lake = Lakes(shared_home).get(EMBEDDED)
    store = open_store(shared_home, lake)
    database = Database(shared_home).engine(METASTORE)
    location = {"location": f"{lake.root}/warehouse/won.db"}

    def loser_waits() -> bool:
        with database.connect() as connection:
            return bool(connection.execute(text(WAITING)).scalar_one())

    with database.connect() as winner, ThreadPoolExecutor(1) as threads:
        winner.execute(text(CREATED), location)
        # It has found no database, has made the directory, and waits for the row.
        loser = threads.submit(penstock.ok, "sql", *SMALL, "CREATE DATABASE IF NOT EXISTS won")
        within(loser_waits, 120)
        store.put("warehouse/won.db/orders/part-00000", b"rows")
        winner.commit()
        loser.result()
    database.dispose()
    assert store.get("warehouse/won.db/orders/part-00000") == b"rows"
    penstock.ok("sql", *SMALL, "DROP DATABASE won")
    assert not list(store.list("warehouse/won.db/"))
