"""Test data of the console besides applications: tables, queues, the waiting applications."""

from __future__ import annotations

from typing import Any

from tests.support.console.world import EVIL, GIB, ago, applications, size


def tables() -> list[dict[str, Any]]:
    def table(name: str, columns: list[tuple[str, str]], rows: int | None, **more: Any) -> dict[str, Any]:
        return {
            "database": "tpcds",
            "name": name,
            "kind": "managed",
            "format": "parquet",
            "location": f"s3a://lake/warehouse/tpcds.db/{name}",
            "partitions": None,
            "rows": rows,
            "size_bytes": None if rows is None else rows * 41,
            "columns": [
                {
                    **{"name": column, "type": kind, "partition": False, "analyzed": rows is not None},
                    **{"comment": "", "default": None},
                }
                for column, kind in columns
            ],
            "statistics": "none" if rows is None else "columns",
            **more,
        }

    facts = [
        ("ss_sold_date_sk", "int"),
        ("ss_item_sk", "int"),
        ("ss_customer_sk", "int"),
        ("ss_quantity", "int"),
        ("ss_net_paid", "decimal(7,2)"),
        ("ss_note", "string"),
    ]
    return [
        table("store_sales", facts, 2_880_404, partitions=1823),
        table(
            "customer", [("c_customer_sk", "int"), ("c_first_name", "string"), ("c_birth_country", "string")], 100_000
        ),
        table(
            "item", [("i_item_sk", "int"), ("i_item_desc", "varchar(200)"), ("i_current_price", "decimal(7,2)")], 18_000
        ),
        table(
            "clicks_raw",
            [("at", "timestamp"), ("user", "bigint"), ("payload", "struct<path:string,ms:int>")],
            None,
            database="web",
        ),
    ]


def preview() -> dict[str, Any]:
    columns = [
        ("ss_sold_date_sk", "int"),
        ("ss_item_sk", "int"),
        ("ss_customer_sk", "int"),
        ("ss_quantity", "int"),
        ("ss_net_paid", "decimal(7,2)"),
        ("ss_note", "string"),
    ]
    rows = [
        [
            2450816 + n,
            137 * n % 18000,
            None if n % 7 == 3 else 991 * n % 100000,
            1 + n % 90,
            f"{n * 17 % 900}.{n % 100:02d}",
            EVIL if n == 4 else f"note {n}",
        ]
        for n in range(50)
    ]
    return {"columns": [{"name": name, "type": kind} for name, kind in columns], "rows": rows, "truncated": True}


def quota(
    cores: int | None = None, memory: int | None = None, running: int | None = None, waiting: int | None = None
) -> dict[str, Any]:
    return {"cores": cores, "memory_bytes": memory, "running": running, "waiting": waiting}


def instances() -> list[dict[str, Any]]:
    return [
        {"name": "default", "weight": 1, "quota": quota(), "used": quota(0, 0, 0, 0)},
        {"name": "pipelines", "weight": 4, "quota": quota(16, 64 * GIB, None, 200), "used": quota(9, 18 * GIB, 2, 0)},
        {"name": "science", "weight": 2, "quota": quota(8, 32 * GIB, 2, 50), "used": quota(0, 0, 0, 1)},
    ]


def queue() -> dict[str, Any]:
    waiting = next(item for item in applications() if item["state"] == "waiting")
    return {
        "items": [
            {
                "id": waiting["id"],
                "name": waiting["name"],
                "instance": "science",
                "priority": 10,
                "position": 1,
                "submitted_at": waiting["submitted_at"],
                "reason": waiting["reason"],
                "cores": 17,
                "memory_bytes": 34 * GIB,
            }
        ],
        "capacity": {"cores": 16, "promisable_cores": 32, "memory_bytes": 64 * GIB},
        "used": {"cores": 13, "memory_bytes": 36 * GIB},
    }


def caller() -> dict[str, Any]:
    capacity = {name: queue()["capacity"][name] for name in ("cores", "memory_bytes")}
    return {
        "name": "ada",
        "instances": None,
        "version": "0.5.0",
        "capacity": capacity,
        "usual_size": size(1, 16, 8),
        "authenticated": True,
    }


def answers() -> dict[str, Any]:
    """Answers by path below `/v1/`."""
    lists = {
        "tables": tables(),
        "instances": instances(),
        "profiles": [
            {"name": "default", "summary": "any application: what all have, and nothing more"},
            {"name": "etl", "summary": "reading, reshaping and writing whole tables"},
        ],
        "lakes": [
            {
                "name": "embedded",
                "default": True,
                "endpoints": ["http://127.0.0.1:8333"],
                "bucket": "lake",
                "kind": "embedded",
                "embedded": True,
                "running": True,
            }
        ],
        "tokens": [token("ada", "read", "submit", "administer"), token("nightly", "read", "submit")],
        "audit": [
            {
                "at": ago(60 * n),
                "actor": "ada",
                "action": "POST /v1/applications",
                "subject": f"20261121-2210{n:02d}",
                "outcome": "done",
            }
            for n in range(1, 6)
        ],
        "sessions": [
            {
                "id": "20261121-221001-0001",
                "name": "ada's notebook",
                "state": "running",
                "instance": "science",
                "protocol": "connect",
                "submitted_at": ago(1900),
                "idle_seconds": 41.0,
                "address": "sc://localhost:15002",
            }
        ],
        "lab/reports": [
            {
                "id": f"20261120-10150{n}-tpcds-penstock-4f2{n}",
                "workload": "tpcds",
                "arm": "penstock" if n % 2 else "plain",
                "created_at": ago(80_000 * n),
                "outcome": "ok" if n != 2 else "wrong",
                "scale": 1.0,
                "experiment": None,
            }
            for n in range(1, 5)
        ],
    }
    return {**{path: {"items": items} for path, items in lists.items()}, "queue": queue(), "cache": cache()}


def token(name: str, *scopes: str) -> dict[str, Any]:
    return {
        "id": f"id-of-{name}",
        "name": name,
        "scopes": list(scopes),
        "instances": None,
        "created_at": ago(90_000),
        "expires_at": ago(-7_000_000),
        "last_used_at": ago(40),
    }


def cache() -> dict[str, Any]:
    def tier(name: str, budget: int, used: int) -> dict[str, Any]:
        sizes = {"budget_bytes": budget * GIB, "used_bytes": used * GIB, "pages": 1024 * used, "evictions": 12}
        return {"tier": name, "directory": f"/cache/{name}", **sizes}

    recent = [
        {"id": item["id"], "name": item["name"], "hit_rate": 0.86, "read_bytes": 21 * GIB}
        for item in applications()[3:5]
    ]
    return {"tiers": [tier("memory", 4, 3), tier("disk", 100, 22)], "applications": recent}
