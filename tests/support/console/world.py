"""A service's answers for the console's tests, in the API's schemas."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

GIB = 2**30
EVIL = "</script><img src=x onerror=alert(1)>"


def ago(seconds: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat()


def size(executors: int = 2, cores: int = 4, memory: int = 8) -> dict[str, Any]:
    return {
        "driver": {"cores": 1, "memory_bytes": 2 * GIB},
        "executor": {"cores": cores, "memory_bytes": memory * GIB},
        "executors": executors,
        "scratch_memory_bytes": 0,
    }


def application(number: int, name: str, state: str, *, age: float, **more: Any) -> dict[str, Any]:
    spec = {
        "application": f"s3a://lake/jobs/{name}.py",
        "name": name,
        "size": size(),
        "arguments": ["--day", "2026-11-20"],
        "main_class": None,
        "profile": "etl",
        "lake": "embedded",
        "settings": {"spark.sql.shuffle.partitions": "64"},
        "environment": {"STAGE": "production"},
        "jars": [],
        "files": [],
        "python_files": [],
        "tags": [],
        "time_limit_seconds": 7200,
        "idempotency_key": None,
        "instance": "default",
        "priority": 0,
        "retries": 0,
        "webhooks": [],
        **more.pop("spec", {}),
    }
    final = state in ("finished", "failed", "stopped", "auto_terminated")
    return {
        "id": f"20261121-2210{number:02d}-{number:04x}",
        "name": name,
        "state": state,
        "reason": None,
        "submitted_at": ago(age),
        "started_at": None if state in ("accepted", "waiting", "starting") else ago(age - 4),
        "ended_at": ago(age - 96.4) if final else None,
        "spark_application_id": None if state in ("accepted", "waiting", "starting") else f"app-20261121-{number:04d}",
        "ui": "/v1/applications/x/ui/" if state == "running" else None,
        "exit_code": 0 if state == "finished" else 1 if state == "failed" else None,
        "summary": summary() if state in ("finished", "failed") else None,
        "attempt": 1,
        "attempts": [],
        "cost": {"amount": 0.0132 * (1 + number % 5), "currency": "USD"} if final else None,
        "progress": progress() if state == "running" else None,
        "spec": spec,
        **more,
    }


def progress(done: int = 131) -> dict[str, Any]:
    return {
        "application_id": "app-20261121221000-0000",
        "name": "nightly",
        "description": "Write the day's facts",
        "jobs_done": 3,
        "stages": [
            {"id": 7, "name": "parquet at Ingest.scala:88", "tasks": 200, "done": done, "running": 8, "failed": 0},
            {
                "id": 8,
                "name": "broadcast exchange: dimension customers",
                "tasks": 4,
                "done": 1,
                "running": 1,
                "failed": 1,
            },
        ],
        "stages_done": 6,
        "tasks_done": 811 + done,
        "tasks_failed": 1,
        "rows_read": 48_213_904 + 10_000 * done,
        "bytes_read": 6 * GIB + done * 2**20,
        "bytes_written": GIB,
        "shuffle_bytes": 2 * GIB,
        "executors": 2,
        "updated_ms": int(datetime.now(timezone.utc).timestamp() * 1000),
        "first_task_ms": 0,
    }


def summary() -> dict[str, Any]:
    return {
        "elapsed_ms": 90_120,
        "task_ms": 512_400,
        "executor_cpu_ms": 401_300,
        "gc_ms": 9_120,
        "rows_read": 182_441_003,
        "bytes_read": 21 * GIB,
        "rows_written": 4_120_882,
        "bytes_written": 3 * GIB + 200 * 2**20,
        "shuffle_read_bytes": 5 * GIB,
        "shuffle_write_bytes": 5 * GIB,
        "spill_disk_bytes": 0,
        "tasks": 1843,
        "tasks_failed": 0,
        "stages": 21,
        "jobs": 9,
        "s3_requests": {"GET": 4120, "PUT": 210, "LIST": 34, "HEAD": 0},
        "s3_retries": 0,
        "lake": {
            "bytes_from_memory": 12 * GIB,
            "bytes_from_disk": 6 * GIB,
            "bytes_from_store": 3 * GIB,
            "bytes_fetched": 7 * GIB,
        },
        "skipping": {"scans": 3, "files": 144, "bytes": 40 * GIB, "files_skipped": 124, "bytes_skipped": 34 * GIB},
        "cpu_seconds": 455.2,
        "peak_rss_bytes": 19 * GIB,
        "artefacts": "s3a://lake/penstock/applications/x/",
    }


def applications() -> list[dict[str, Any]]:
    failed = {
        "code": "driver_failed",
        "message": "java.lang.OutOfMemoryError: Java heap space, in stage 12 (join of sales and returns)",
        "fix": "give executors more memory: --executor-memory 16g",
    }
    lost = {
        "number": 1,
        "admitted_at": ago(5600),
        "started_at": ago(5590),
        "ended_at": ago(5300),
        "exit_code": None,
        "reason": {"code": "driver_lost", "message": "the cluster was lost: its machine was restarted", "fix": ""},
        "cost": {"amount": 0.004, "currency": "USD"},
    }
    waits = {"code": "waiting_for_capacity", "message": "8 cores are asked for, 3 are free", "fix": ""}
    return [
        application(1, "nightly-ingest", "running", age=74, spec={"tags": ["nightly", "etl"], "instance": "pipelines"}),
        application(
            2, "feature-store-refresh", "waiting", age=31, reason=waits, spec={"instance": "science", "size": size(4)}
        ),
        application(3, "sessionize-clicks", "starting", age=3.4, spec={"tags": ["hourly"], "instance": "pipelines"}),
        application(
            4,
            "tpcds-q72",
            "finished",
            age=1320,
            spec={"tags": ["lab"], "profile": "tpcds", "webhooks": ["https://hooks.example.org/penstock"]},
        ),
        application(
            5,
            "churn-model",
            "failed",
            age=5210,
            reason=failed,
            attempt=2,
            attempts=[lost],
            spec={"instance": "science", "retries": 2},
        ),
        application(
            6,
            "backfill-2025",
            "stopped",
            age=9000,
            reason={"code": "stopped_by_user", "message": "it was stopped on request", "fix": ""},
        ),
        application(7, EVIL, "finished", age=12_000, spec={"tags": ["<b>bold</b>"]}),
        application(
            8,
            "hourly-rollup",
            "auto_terminated",
            age=20_000,
            reason={
                "code": "time_limit",
                "message": "its time limit of 60 s is over",
                "fix": "raise it with --time-limit",
            },
        ),
        *(
            application(n, f"daily-report-{n}", "finished", age=80_000 + 86_400 * (n - 9), spec={"tags": ["daily"]})
            for n in range(9, 40)
        ),
    ]


def deliveries(item: dict[str, Any]) -> list[dict[str, Any]]:
    start = datetime.fromisoformat(item["submitted_at"])
    at = [(start + timedelta(seconds=after)).isoformat() for after in (0.3, 3600)]
    delivered = {"tries": 1, "due_at": None, "delivered_at": at[0], "problem": None}
    late = {"tries": 5, "due_at": at[1], "delivered_at": None, "problem": "it answered 503"}
    return [
        {"id": number, "url": url, "state": state, **outcome}
        for url in item["spec"]["webhooks"]
        for number, (state, outcome) in enumerate((("accepted", delivered), ("finished", late)))
    ]


def events(item: dict[str, Any]) -> list[dict[str, Any]]:
    start = datetime.fromisoformat(item["submitted_at"])
    steps = [
        ("Submitted", None, "accepted", 0.0),
        ("Admitted", "accepted", "starting", 0.2),
        ("ContextStarted", "starting", "running", 4.0),
    ]
    reached = {"waiting": 1, "starting": 2}.get(item["state"], 3)
    found = [
        {
            "at": (start + timedelta(seconds=after)).isoformat(),
            "event": event,
            "from_state": before,
            "to_state": to,
            "detail": None,
        }
        for event, before, to, after in steps[:reached]
    ]
    if item["state"] == "waiting":
        found.append(
            {
                "at": ago(30),
                "event": "MustWait",
                "from_state": "accepted",
                "to_state": "waiting",
                "detail": {"reason": item["reason"]},
            }
        )
    if item["ended_at"]:
        found.append(
            {
                "at": item["ended_at"],
                "event": "DriverEnded",
                "from_state": "running",
                "to_state": item["state"],
                "detail": {"exit_code": item["exit_code"]},
            }
        )
    return found


LOG = "\n".join(
    [
        *(
            f"22:10:{n % 60:02d} INFO TaskSetManager: Finished task {n}.0 in stage 7.0 in {40 + n % 90} ms ({n}/200)"
            for n in range(120)
        ),
        "22:11:02 WARN BlockManager: Block rdd_4_1 could not be removed",
        "22:11:03 ERROR Executor: Exception in task 12.0 in stage 12.0 (TID 812)",
        "java.lang.OutOfMemoryError: Java heap space",
        f"\tat com.example.Join.merge(Join.scala:88) {EVIL}",
        "",
    ]
)
