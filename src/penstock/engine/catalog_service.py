"""The catalog for engines other than Spark: the Hive metastore's Thrift protocol, in a process of its own.

The process changes tables with the lake's credentials, which it reads from private files, as an application's do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.engine.preparation import CredentialRenewal, Preparation, credentials_for
from penstock.errors import CatalogError, MissingRequirement, PenstockError
from penstock.formats import configuration_xml, url_host
from penstock.home import Home, write_atomically
from penstock.lake import settings as lake_settings
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.lake.sts import Lease
from penstock.profiles.known import HADOOP_PREFIX
from penstock.runtime import jvm, tool

PORT = 9083
"""The port of every Hive metastore."""

_MAIN = "io.penstock.catalog.MetastoreService"
_CANNOT_LISTEN = 2


@dataclass
class MetastoreService:
    """A metastore service that serves."""

    url: str
    """The address that clients set as `hive.metastore.uris`."""
    lake: Lake
    _process: tool.ToolRun
    _refusal: PenstockError | None = None
    _wanted: bool = True

    def end(self, because: PenstockError | None = None) -> None:
        """Let `wait` return, or raise `because`."""
        self._refusal, self._wanted = because, False
        self._process.end()

    def wait(self) -> None:
        """Return once it was ended. Raises `CatalogError` where it ended by itself."""
        for _ in self._process.lines():
            pass
        if self._refusal:
            raise self._refusal
        if self._wanted:
            raise _failed(self._process)


@contextlib.contextmanager
def metastore_service(home: Home, lake: str | None, host: str, port: int) -> Iterator[MetastoreService]:
    """Start a metastore service for the tables of this home, and end it when the caller leaves.

    New databases and tables are made in `lake` (default: the default lake), for all tables of which it has credentials.
    `port` 0 chooses a free one. Raises `StateError` while that lake has another service, `MissingRequirement` where it
    cannot listen there, `CatalogError` or `LakeError` where database or lake do not work.
    """
    database = Database(home)
    preparation = Preparation(home, database, lake)
    found, _ = preparation.lake, preparation.hive_site()
    own = Lakes(home).client_credentials(found)
    name = f"metastore-{os.getpid()}"
    given = None if own is None else credentials_for(found, own, name)
    settings = {**lake_settings.spark_settings(found), **lake_settings.gateway_settings(found)}
    hadoop = {
        key.removeprefix(HADOOP_PREFIX): value for key, value in settings.items() if key.startswith(HADOOP_PREFIX)
    }
    files = {
        **lake_settings.private_files(found, given),
        "hive-site.xml": Metastore(database).service_site(f"{found.root}/warehouse"),
        "core-site.xml": configuration_xml({**hadoop, "fs.s3a.buffer.dir": "${java.io.tmpdir}"}),
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            home.lock(
                f"metastore-{found.name}",
                busy=f"A metastore service of lake {found.name} is running already",
                fix="use its address, or end it first",
            )
        )
        process = stack.enter_context(
            tool.run(
                _MAIN,
                [host, str(port)],
                files=files,
                environment={"LC_ALL": "C.UTF-8", "PATH": os.defpath, **lake_settings.environment(found)},
                options=[
                    *jvm.trust_options(jvm.find_java(), found.authorities, cache=home.cache),
                    "-Dlog4j2.configurationFile=classpath:log4j2-service.properties",
                    f"-Dpenstock.log={home.root / 'metastore.log'}",
                ],
                jars=[*jvm.class_path(), Path(tool.PRIVATE)],
                directory=home.root / "metastore" / found.name,
            )
        )
        listening = next(process.lines(), "").strip()
        if not listening:
            raise _cannot_listen(host, port, process) if process.code == _CANNOT_LISTEN else _failed(process)
        service = MetastoreService(f"thrift://{url_host(host)}:{listening}", found, process)
        if isinstance(given, Lease) and own is not None:
            stack.callback(_renewal(name, service, own, given).close)
        yield service


def _renewal(name: str, service: MetastoreService, own: Credentials, held: Lease) -> CredentialRenewal:
    file = service._process.private / lake_settings.CREDENTIALS_FILE
    return CredentialRenewal(
        name,
        held,
        issue=lambda: credentials_for(service.lake, own, name),
        write=lambda content: write_atomically(file, content),
        give_up=service.end,
    )


def _cannot_listen(host: str, port: int, process: tool.ToolRun) -> PenstockError:
    return MissingRequirement(
        f"The metastore service cannot listen on {url_host(host)}:{port}",
        why="\n".join(process.last_errors(1)),
        fix=f"choose another: --port N, or --port 0 for a free one; ss -ltnp 'sport = :{port}' shows who has it",
    )


def _failed(process: tool.ToolRun) -> PenstockError:
    return CatalogError(
        "The metastore service ended",
        why="\n".join([*process.last_errors(), f"Java ended with {process.ending}"]),
        fix="read metastore.log in the state directory, then: penstock doctor",
    )
