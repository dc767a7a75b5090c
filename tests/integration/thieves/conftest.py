"""The scene, made once for each file of tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from penstock.catalog.database import METASTORE, Database
from penstock.catalog.tables import OWNER
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import EVERY_INSTANCE, Scope, TokenStore
from penstock.engine.webhooks import shown_secret
from penstock.home import Home, write_atomically
from penstock.lake import registry
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from tests.integration.thieves.scene import CANARY, READER, TENANT, THIEF, VICTIM, Scene
from tests.support.database_template import DatabaseTemplate
from tests.support.fake_engine import FakeEngine, specification
from tests.support.service_process import serving


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, database_template: DatabaseTemplate) -> Iterator[Scene]:
    home = Home(tmp_path_factory.mktemp("thieves"))
    database_template.copy_to(home, metastore=True)
    _databases(home)
    lakes = Lakes(home)
    sales = lakes.add(Lake("sales", ("http://127.0.0.1:9",), "sales", ""), Credentials("owner", f"{CANARY}-own"))
    keys = Credentials(f"{CANARY}-access", f"{CANARY}-secret")
    scoped = lakes.add(registry.credential_scoped(sales, keys, VICTIM), keys)
    engine = FakeEngine(home)
    for name in (VICTIM, THIEF):
        engine.queues.put(Instance(name, attributes={"note": CANARY} if name == VICTIM else {}))
    records = Database(home).engine()
    store = TokenStore(records)
    grants = {
        VICTIM: {VICTIM: Scope.SUBMIT},
        TENANT: {THIEF: Scope.SUBMIT},
        READER: {THIEF: Scope.READ},
        "administrator": {EVERY_INSTANCE: Scope.ADMINISTER},
    }
    made = {who: store.create(who if who in (TENANT, READER) else CANARY, grant) for who, grant in grants.items()}
    # The place where a service that makes the first token itself leaves it.
    (home.root / "service").mkdir(mode=0o700)
    write_atomically(home.root / "service" / "admin.token", made["administrator"][1])
    thiefs = engine.enqueue(specification(home, 2, instance=THIEF, lake="sales"))
    engine.request_stop(thiefs.id)
    application = _victims_application(engine, home, records, scoped)
    victims = made[VICTIM], made["administrator"]
    try:
        with serving(home) as served:
            host, _, port = served.url.removeprefix("http://").partition(":")
            yield Scene(
                host,
                int(port),
                int(served.spark_ui.rpartition(":")[2]),
                application,
                thiefs.id,
                scoped.name,
                {who: text for who, (_, text) in made.items()},
                {token.id: token.secret_hash for token, _ in victims},
                (
                    CANARY,
                    application,
                    VICTIM,
                    scoped.name,
                    shown_secret(home, VICTIM),
                    *(part for token, text in victims for part in (token.secret_hash, text)),
                ),
                records,
                home,
            )
    finally:
        records.dispose()
        Database(home).down()


_CACHED = {"s3_requests": {"GET": 1}, "lake": {"bytes_from_memory": 8}}
"""The counts of an application that read through the page cache."""
_DATABASES = (
    """INSERT INTO "DBS" ("DB_ID", "DB_LOCATION_URI", "NAME")
       VALUES (1000000, 's3a://sales/canary', :victim), (1000001, 's3a://sales/loot', 'loot')""",
    """INSERT INTO "DATABASE_PARAMS" ("DB_ID", "PARAM_KEY", "PARAM_VALUE")
       VALUES (1000000, :owner, :victim), (1000001, :owner, :thief)""",
    """INSERT INTO "SDS" ("SD_ID", "IS_COMPRESSED", "IS_STOREDASSUBDIRECTORIES", "LOCATION", "NUM_BUCKETS")
       VALUES (1000000, false, false, 's3a://sales/' || :canary, 0)""",
    """INSERT INTO "TBLS" ("TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "RETENTION", "IS_REWRITE_ENABLED",
         "SD_ID", "TBL_NAME", "TBL_TYPE")
       VALUES (1000000, 0, 1000000, 0, 0, false, 1000000, 'gold', 'EXTERNAL_TABLE')""",
)


def _databases(home: Home) -> None:
    """Make a database of the victim with a table, and the thief's own database “loot”, as Hive's metastore would."""
    metastore = Database(home).engine(METASTORE)
    values = {"victim": VICTIM, "thief": THIEF, "owner": OWNER, "canary": CANARY}
    with metastore.begin() as connection:
        for statement in _DATABASES:
            connection.execute(sa.text(statement), values)
    metastore.dispose()


def _victims_application(engine: FakeEngine, home: Home, records: sa.Engine, lake: Lake) -> str:
    """Make an ended application with everything that a thief could steal."""
    made = engine.enqueue(
        specification(
            home,
            1,
            instance=VICTIM,
            lake=lake.name,
            tags=(CANARY,),
            arguments=(CANARY,),
            environment={"NOTE": CANARY},
            idempotency_key="victims-key",
            webhooks=(f"https://{CANARY}.example/",),
        )
    )
    log = home.root / "artefacts" / made.id / "driver.log"
    log.parent.mkdir(parents=True)
    write_atomically(log, f"{CANARY}\n")
    engine.request_stop(made.id)
    # As if it had run: no other component changes an ended application.
    with records.begin() as connection:
        connection.execute(sa.text("ALTER TABLE applications DISABLE TRIGGER USER"))
        connection.execute(
            sa.text("UPDATE applications SET summary = :summary WHERE id = :id"),
            {"id": made.id, "summary": json.dumps({"artefacts": log.parent.as_uri(), "note": CANARY, **_CACHED})},
        )
        connection.execute(sa.text("ALTER TABLE applications ENABLE TRIGGER USER"))
    return made.id
