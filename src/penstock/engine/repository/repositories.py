"""The repositories of one engine in one database."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from penstock.engine.repository.applications import ApplicationRepository
from penstock.engine.repository.audit import AuditLog, Outbox
from penstock.engine.repository.listing import ApplicationReader
from penstock.engine.repository.pending_artifacts import PendingArtifacts
from penstock.engine.repository.queues import QueueRepository
from penstock.engine.repository.retention import Pruner


@dataclass(frozen=True)
class Repositories:
    """All repositories of the engine named `owner`, over one connection pool. Thread-safe."""

    database: sa.Engine
    owner: str
    transitions: ApplicationRepository
    applications: ApplicationReader
    queues: QueueRepository
    audit: AuditLog
    outbox: Outbox
    pruner: Pruner
    pending: PendingArtifacts

    @staticmethod
    def open(database: sa.Engine, owner: str) -> Repositories:
        """Bring the tables up to date, if needed, and open the repositories."""
        return Repositories(
            database,
            owner,
            ApplicationRepository(database, owner),
            ApplicationReader(database, owner),
            QueueRepository(database, owner),
            AuditLog(database, owner),
            Outbox(database, owner),
            Pruner(database, owner),
            PendingArtifacts(database, owner),
        )
