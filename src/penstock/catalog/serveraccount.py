"""Which account runs the embedded PostgreSQL, and where that account finds the programs.

PostgreSQL refuses to run as root. For any other user it runs as that user, from the wheel itself.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import MissingRequirement

# An account of its own, not `nobody`: files of `nobody` are open to every other service that fell back on it.
ACCOUNT = "penstock"

_SHARED = Path("/var/lib/penstock")


@dataclass(frozen=True)
class ServerAccount:
    """`uid` and `gid` are None where the server runs as the caller. `programs` holds `postgres` and `initdb`."""

    programs: Path
    uid: int | None = None
    gid: int | None = None

    @staticmethod
    def caller() -> ServerAccount:
        """The caller itself: enough to ask after a server and to stop it."""
        return ServerAccount(_site_packages() / _PROGRAMS)

    @staticmethod
    def choose() -> ServerAccount:
        """Root gets the system account `penstock`, made when missing. Raises `MissingRequirement`."""
        site = _site_packages()
        if os.geteuid() != 0:
            return ServerAccount(site / _PROGRAMS)
        account = _system_account()
        if not open_to_all(site / _PROGRAMS / "postgres"):
            site = _shared_copy(site)
        return ServerAccount(site / _PROGRAMS, account.pw_uid, account.pw_gid)

    def own(self, path: Path | int) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def open_to_all(path: Path) -> bool:
    """Whether any account may read `path` and pass every directory above it."""
    path = path.resolve()
    return all(step.stat().st_mode & 0o001 for step in (path, *path.parents))


_PROGRAMS = Path("pgserver/pginstall/bin")


def _site_packages() -> Path:
    # Found, not imported: importing pgserver makes directories and takes file locks.
    spec = find_spec("pgserver")
    if spec is None or spec.origin is None:
        raise MissingRequirement(
            "The embedded PostgreSQL is not installed",
            why="the Python package pgserver is missing",
            fix="pip install penstock again, or name a server of your own with PENSTOCK_DATABASE_URL",
        )
    return Path(spec.origin).parent.parent


def _system_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        pass
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    try:
        made = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", ACCOUNT], capture_output=True, text=True, check=False
        )
        detail = made.stderr.strip()
    except OSError as error:
        detail = str(error)
    try:  # asked again whatever useradd said: another process may have been quicker
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise MissingRequirement(
            "The embedded PostgreSQL cannot run as root",
            why=f"it needs the account '{ACCOUNT}', which cannot be made: {detail}",
            fix=f"make it (useradd --system {ACCOUNT}), or run penstock as an ordinary user",
        ) from None


def _shared_copy(site: Path) -> Path:
    """The programs where every account can reach them, for an installation below a private directory such as /root.

    Owned by root and not writable by the account that runs them.
    """
    target = _SHARED / f"postgresql-{version('pgserver')}"
    if target.exists():
        return target
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.parent.chmod(0o755)
        for part in (_PROGRAMS, Path("pgserver/pginstall/lib/postgresql"), Path("pgserver/pginstall/share")):
            shutil.copytree(site / part, fresh / part)
        shutil.copytree(site / "pgserver.libs", fresh / "pgserver.libs")
        for made in (fresh, *(path for path in fresh.rglob("*") if not path.is_symlink())):
            made.chmod(made.stat().st_mode & 0o755 | (0o055 if made.is_dir() else 0o044))
        fresh.rename(target)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if target.exists():  # another process made it meanwhile
            return target
        raise MissingRequirement(
            f"PostgreSQL's programs cannot be copied to {target}",
            why=f"the account '{ACCOUNT}' cannot reach them where they are ({site}), and copying failed: {error}",
            fix=f"free space below {_SHARED.parent}, or install penstock outside private directories",
        ) from error
    return target
