"""The distribution's packages that a Ceph is made of: which are missing, and installing them on request."""

from __future__ import annotations

import os
import shutil
import subprocess

from penstock.errors import MissingRequirement
from penstock.lake.ceph.commands import program_path

_PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
    "radosgw": "radosgw",
    "ceph-common": "radosgw-admin",
}
PACKAGES = tuple(_PROGRAMS)


def missing() -> list[str]:
    return [package for package, program in _PROGRAMS.items() if program_path(program) is None]


def require() -> None:
    """Raise `MissingRequirement` with what to do where a package is missing."""
    if lacking := missing():
        raise MissingRequirement(
            "Ceph is not installed on this machine",
            why=f"there is no {', '.join(lacking)}",
            fix="penstock lake ceph install (as root; Debian and Ubuntu have the packages), "
            "or use the embedded lake: penstock lake up",
        )


def version() -> str:
    """`16.2.15`, of the gateways; empty where there are none."""
    path = program_path("radosgw")
    if path is None:
        return ""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return told[2].partition("+")[0] if len(told) > 2 else ""


def require_installable() -> None:
    """Raise `MissingRequirement` where `install` could not work."""
    names = " ".join(PACKAGES)
    if shutil.which("apt-get") is None:
        raise MissingRequirement(
            "Ceph cannot be installed here",
            why="this system has no apt-get; Penstock knows the packages of Debian and Ubuntu",
            fix=f"install what your distribution calls {names}",
        )
    if os.geteuid() != 0:
        raise MissingRequirement(
            "Ceph cannot be installed by this account",
            why="installing packages needs root",
            fix=f"sudo apt-get install --no-install-recommends {names}",
        )


def install() -> None:
    """Install what is missing, by name, with apt; its words go to the terminal. Raises `MissingRequirement`."""
    require_installable()
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        if code := subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL, check=False).returncode:
            raise MissingRequirement(
                "Ceph's packages could not be installed",
                why=f"{' '.join(command)} ended with exit code {code}; its reasons are above",
                fix="correct what it says, then penstock lake ceph install",
            )
    require()
