"""Recorded runs of eight workloads on four stores, made by hand."""

from __future__ import annotations

from typing import Any

from penstock.lab.records import Run
from tests.unit.lab.lab_runs import GB, application, check, measure, repetition, run

STORES = {
    "HDFS": ("hdfs", "HDFS", "3.4.2", "3x", 3.0, {"datanodes": "3", "reads": "co-located"}),
    "Ceph 3x": ("ceph", "Ceph", "16.2.15", "3x", 3.0, {"osds": "6", "data": "/dev/vda, ext4", "metadata": "tmpfs"}),
    "Ceph 4+2": ("ceph-erasure", "Ceph", "16.2.15", "4+2", 1.5, {"osds": "6", "data": "/dev/vda, ext4"}),
    "embedded": ("embedded", "SeaweedFS", "4.48", "1x", 1.0, {"servers": "1", "data": "/dev/vda, ext4"}),
}
SLOWER = {"HDFS": 1.0, "Ceph 3x": 1.05, "Ceph 4+2": 1.37, "embedded": 0.8}
"""Times relative to HDFS; that of the enrichment on erasure-coded Ceph is the published one."""
SECONDS = {"enrichment": 100.0, "terasort": 40.0, "kmeans": 30.0, "etl": 20.0, "streams": 200.0, "mixed": 300.0}


def lake(store: str, gateways: int = 2) -> dict[str, Any]:
    name, software, version, protection, factor, layout = STORES[store]
    facts = {"software": software, "version": version, "protection": protection, "raw_factor": factor, "layout": layout}
    return {
        "name": name,
        "kind": software.lower(),
        "endpoints": [f"http://127.0.0.1:{port}" for port in range(8000, 8000 + gateways)],
        "store": facts,
    }


def timed(workload: str, store: str, *, seconds: float | None = None, rounds: int = 3, size: float = 10 * GB) -> Run:
    """One measure of this many seconds, slightly different in each round."""
    base = (seconds or SECONDS[workload]) * (SLOWER[store] if seconds is None else 1)
    samples: list[dict[str, Any]] = [{"kind": "dataset", "manifest": {"bytes": size}}] * 2
    for number in range(1, rounds + 1):
        took = base * (1 + (number - 2) / 50)
        done = [
            measure(workload, took, bytes=size),
            check("result"),
            application(workload, core_seconds=took * 1.5),
            usage(store, took),
        ]
        samples += repetition(number, done)
    return run(workload, samples, arm=store, lake=lake(store), versions={"spark": "4.1.2"}, experiment=workload)


def usage(store: str, seconds: float) -> dict[str, Any]:
    names = ["mon.a", "osd.0", "osd.1", "rgw.0"] if store.startswith("Ceph") else [store.lower()]
    each = {
        "core_seconds": round(seconds / 10 / len(names), 2),
        "read_bytes": GB // 10,
        "written_bytes": GB,
        "peak_memory_bytes": 400 << 20,
    }
    return {
        "kind": "usage",
        "elapsed_ms": seconds * 1000,
        "machine_core_seconds": seconds * 2,
        "store_core_seconds": round(seconds / 10, 2),
        "store_peak_memory_bytes": (400 << 20) * len(names),
        "store_read_bytes": GB // 10 * len(names),
        "store_written_bytes": GB * len(names),
        "daemons": {name: dict(each) for name in names},
    }


def dfsio(store: str) -> Run:
    """Writes and reads of 1 GB, with two numbers of clients."""
    samples: list[dict[str, Any]] = []
    for number in range(1, 4):
        slower = SLOWER[store] * (1 + (number - 2) / 50)
        done = [
            measure(f"{kind}, {many} clients", base * slower, bytes=GB, clients=many)
            for kind, base in (("write", 8.0), ("read", 4.0))
            for many in (2, 4)
        ]
        samples += repetition(number, [*done, usage(store, 24.0)])
    return run("dfsio", samples, arm=store, lake=lake(store))


def tpcds(store: str, *, failing: str = "") -> Run:
    """Two queries, of which `failing` names those that failed."""
    tables = [{"table": "item", "bytes": 10**6}, {"table": "store_sales", "bytes": 24 * 10**6}]
    samples: list[dict[str, Any]] = [{"kind": "dataset", "manifest": {"scale": 0.1, "tables": tables}}]
    for number in range(1, 4):
        queries = [
            {
                "kind": "query",
                "query": name,
                "iteration": 1,
                "elapsed_ms": base * SLOWER[store] * (1 + (number - 2) / 50),
                "status": "failed" if name == failing else "ok",
            }
            for name, base in (("q3", 1000), ("q42", 3000))
        ]
        samples += repetition(number, [*queries, usage(store, 4.0)])
    return run("tpcds", samples, arm=store, lake=lake(store), scale=0.1)


def eight() -> list[Run]:
    """DFSIO's reads and writes, TPC-DS and six other workloads, on all four stores."""
    runs = [maker(store) for maker in (dfsio, tpcds) for store in STORES]
    return runs + [timed(workload, store) for workload in list(SECONDS)[:5] for store in STORES]
