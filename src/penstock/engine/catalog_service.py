"""The catalog for engines other than Spark: the Hive metastore's and Iceberg's protocols, each in a process of its own.

Each process changes tables with the lake's credentials, which it reads from private files, as an application's do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.engine.preparation import CredentialRenewal, Preparation, credentials_for
from penstock.errors import CatalogError, MissingRequirement, PenstockError, StateError
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

_CANNOT_LISTEN = 2
_STORE = {
    "fs.s3a.buffer.dir": "${java.io.tmpdir}",
    # A namespace's directory is an empty object.
    "fs.s3a.audit.execution.interceptors": lake_settings.EMPTY_BODIES,
}
_KEY_FILE = "key"
_ENDING_SECONDS = 0.5
"""The time from a killed process's last connection to its end, at the most."""


@dataclass(frozen=True)
class _Program:
    name: str
    """The name of its directory, lock and log in the state directory."""
    title: str
    main: str
    alone: bool
    """Whether a lake has one at most: it has the port that clients know."""

    @property
    def user(self) -> str:
        """The name under which this process asks for credentials."""
        return f"{self.name}-{os.getpid()}"


_METASTORE = _Program("metastore", "A metastore service", "io.penstock.catalog.MetastoreService", alone=True)
_ICEBERG = _Program("iceberg", "An Iceberg catalog", "io.penstock.catalog.IcebergService", alone=False)


@dataclass
class CatalogProcess:
    """A process that serves."""

    url: str
    """The address that clients set as `hive.metastore.uris`, or that of Iceberg's protocol."""
    _access: _Access
    _process: tool.ToolRun
    _refusal: PenstockError | None = None
    _wanted: bool = True

    @property
    def lake(self) -> Lake:
        """The lake in which new databases and tables are made."""
        return self._access.lake

    @property
    def ended(self) -> bool:
        return self._process.ended

    def ended_within(self, seconds: float) -> bool:
        """Wait so long for its end, and return whether it has ended."""
        return self._process.ended_within(seconds)

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
            raise _failed(self._access.program, self._process)


@contextlib.contextmanager
def metastore_service(home: Home, lake: str | None, host: str, port: int) -> Iterator[CatalogProcess]:
    """Start a metastore service for the tables of this home, and end it when the caller leaves.

    New databases and tables are made in `lake` (default: the default lake), for all tables of which it has credentials.
    `port` 0 chooses a free one. Raises `StateError` while that lake has another service, `MissingRequirement` where it
    cannot listen there, `CatalogError` or `LakeError` where database or lake do not work.
    """
    with _running(_METASTORE, home, lake, [host, str(port)]) as (access, process):
        listening = next(process.lines(), "").strip()
        if not listening and process.code == _CANNOT_LISTEN:
            raise _cannot_listen(host, port, process)
        with _serving(f"thrift://{url_host(host)}", listening, access, process) as service:
            yield service


class IcebergCatalog:
    """Iceberg's REST catalog for this home, as a process that its first user starts. Thread-safe.

    It serves whoever has its key, so that its user decides who may do what. A request after it ended, however it did,
    starts it anew.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._turn = threading.Lock()
        self._held = contextlib.ExitStack()
        self._process: CatalogProcess | None = None
        self.key = secrets.token_urlsafe(32)

    def url(self, lost: str | None = None, *, refuses: bool = False) -> str:
        """Return the address of the process that serves now.

        `lost` is the address of one that broke a connection off. It is replaced if it has ended, or `refuses`
        connections: while it lives it works for others, whose changes its end would break off. Raises `CatalogError` or
        `LakeError` where database or lake do not work.
        """
        with self._turn:
            found = self._process
            if found and (found.ended or (found.url == lost and (refuses or found.ended_within(_ENDING_SECONDS)))):
                found = None
            if found is None:
                self._held.close()
                self._process = None
                found = self._process = self._held.enter_context(self._serving())
            return found.url

    def close(self) -> None:
        """End the process; a later request would start another."""
        with self._turn:
            self._held.close()
            self._process = None

    @contextlib.contextmanager
    def _serving(self) -> Iterator[CatalogProcess]:
        files, arguments = {_KEY_FILE: self.key}, [f"{tool.PRIVATE}/{_KEY_FILE}"]
        with (
            _running(_ICEBERG, self._home, None, arguments, files) as (access, process),
            _serving("http://127.0.0.1", next(process.lines(), "").strip(), access, process) as service,
        ):
            yield service


@dataclass(frozen=True)
class _Access:
    """A program's lake and its credentials there: the lake's own, or temporary ones made with them."""

    program: _Program
    lake: Lake
    own: Credentials | None
    given: Credentials | Lease | None

    def renewed(self) -> Credentials | Lease:
        assert self.own is not None  # noqa: S101  only what was given is renewed
        return credentials_for(self.lake, self.own, self.program.user)


@contextlib.contextmanager
def _running(
    program: _Program, home: Home, lake: str | None, arguments: Sequence[str], also: Mapping[str, str] | None = None
) -> Iterator[tuple[_Access, tool.ToolRun]]:
    """Start a program that has the catalog's database and the lake in private files, beside those in `also`."""
    database = Database(home)
    preparation = Preparation(home, database, lake)
    found, _ = preparation.lake, preparation.hive_site()
    own = Lakes(home).client_credentials(found)
    given = None if own is None else credentials_for(found, own, program.user)
    settings = {**lake_settings.spark_settings(found), **lake_settings.gateway_settings(found)}
    hadoop = {
        key.removeprefix(HADOOP_PREFIX): value for key, value in settings.items() if key.startswith(HADOOP_PREFIX)
    }
    files = {
        **lake_settings.private_files(found, given),
        "hive-site.xml": Metastore(database).service_site(f"{found.root}/warehouse"),
        "core-site.xml": configuration_xml({**hadoop, **_STORE}),
        **(also or {}),
    }
    with (
        _place(program, home, found) as directory,
        tool.run(
            program.main,
            arguments,
            files=files,
            environment={"LC_ALL": "C.UTF-8", "PATH": os.defpath, **lake_settings.environment(found)},
            options=[
                *jvm.trust_options(jvm.find_java(), found.authorities, cache=home.cache),
                "-Dlog4j2.configurationFile=classpath:log4j2-service.properties",
                f"-Dpenstock.log={home.root / f'{program.name}.log'}",
            ],
            jars=[*jvm.class_path(), Path(tool.PRIVATE)],
            directory=directory,
        ) as process,
    ):
        yield _Access(program, found, own, given), process


@contextlib.contextmanager
def _place(program: _Program, home: Home, lake: Lake) -> Iterator[Path]:
    """Hold a directory of a lake's for the private files of a process: `<lake>`, or `<lake>-2` beside another process.

    Raises `StateError` where the program is to be alone and is not.
    """

    def lock(name: str) -> contextlib.AbstractContextManager[None]:
        return home.lock(
            f"{program.name}-{name}",
            busy=f"{program.title} of lake {lake.name} is running already",
            fix="use its address, or end it first",
        )

    root = home.root / program.name
    with contextlib.ExitStack() as held:
        for number in itertools.count(1):
            name = lake.name if number == 1 else f"{lake.name}-{number}"
            try:
                held.enter_context(lock(name))
            except StateError:
                if program.alone:
                    raise
            else:
                break
        if not program.alone and root.is_dir():
            # No later process may have the place of a killed one, whose credentials would stay.
            for left in root.iterdir():
                with contextlib.suppress(StateError), lock(left.name):
                    shutil.rmtree(left, ignore_errors=True)
        yield root / name


@contextlib.contextmanager
def _serving(url: str, port: str, access: _Access, process: tool.ToolRun) -> Iterator[CatalogProcess]:
    """Renew the program's credentials while it serves at `port`, which is empty where it does not."""
    if not port:
        raise _failed(access.program, process)
    service = CatalogProcess(f"{url}:{port}", access, process)
    with contextlib.ExitStack() as stack:
        if isinstance(access.given, Lease):
            file = process.private / lake_settings.CREDENTIALS_FILE
            renewal = CredentialRenewal(
                access.program.user,
                access.given,
                issue=access.renewed,
                write=lambda content: write_atomically(file, content),
                give_up=service.end,
            )
            stack.callback(renewal.close)
        yield service


def _cannot_listen(host: str, port: int, process: tool.ToolRun) -> PenstockError:
    return MissingRequirement(
        f"The metastore service cannot listen on {url_host(host)}:{port}",
        why="\n".join(process.last_errors(1)),
        fix=f"choose another: --port N, or --port 0 for a free one; ss -ltnp 'sport = :{port}' shows who has it",
    )


def _failed(program: _Program, process: tool.ToolRun) -> PenstockError:
    return CatalogError(
        f"{program.title} ended",
        why="\n".join([*process.last_errors(), f"Java ended with {process.ending}"]),
        fix=f"read {program.name}.log in the state directory, then: penstock doctor",
    )
