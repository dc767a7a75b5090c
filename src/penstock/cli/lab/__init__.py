"""`penstock lab`: measure the field's workloads, look back at what was measured, and compare."""

from penstock.cli.lab import (
    blocks,
    dfsio,
    enrichment,
    etl,
    gateways,
    ingest,
    kmeans,
    measure,
    mixed,
    objects,
    reads,
    reports,
    scale,
    startup,
    streams,
    terasort,
    tpcds,
)
from penstock.cli.lab.app import app

__all__ = [
    "app",
    "blocks",
    "dfsio",
    "enrichment",
    "etl",
    "gateways",
    "ingest",
    "kmeans",
    "measure",
    "mixed",
    "objects",
    "reads",
    "reports",
    "scale",
    "startup",
    "streams",
    "terasort",
    "tpcds",
]
