"""A root of Debian's packages, made by mmdebstrap: no container daemon, no registry."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from penstock.errors import MissingRequirement
from penstock.image.contents import PACKAGES

RELEASES = {"3.11": "bookworm", "3.13": "trixie"}
"""By the Python that each has."""

_SECONDS = 1800


def command(release: str, to: Path) -> list[str]:
    # The set-up of Java's packages fails without the directory; copyright files are what their licences ask for.
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        release,
        str(to),
    ]


def make(python: str, to: Path, *, at: int) -> None:
    """Write the root's tar to `to`: half a minute to some minutes, by the network. Raises `MissingRequirement`."""
    release = RELEASES.get(python)
    if release is None:
        raise MissingRequirement(
            f"No release of Debian has Python {python}",
            why="the image takes what is installed here, so its Python must be of the same release",
            fix="--base a root with it, or run Penstock with Python " + " or ".join(RELEASES),
        )
    if shutil.which("mmdebstrap") is None:
        raise MissingRequirement(
            "mmdebstrap is not installed",
            why="the base of the image is made by it of Debian's packages",
            fix="sudo apt-get install --yes mmdebstrap, or --base a root directory, a tar of one, or another image",
        )
    try:
        made = subprocess.run(
            command(release, to),
            env={**os.environ, "SOURCE_DATE_EPOCH": str(at)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        failed = "\n".join(made.stderr.strip().splitlines()[-5:]) if made.returncode else None
    except subprocess.TimeoutExpired:
        failed = f"it had not ended after {_SECONDS // 60} minutes"
    if failed is not None:
        raise MissingRequirement(
            "mmdebstrap could not make the base",
            why=failed,
            fix=f"run it by hand to see more: {shlex.join(command(release, to))}",
        )
