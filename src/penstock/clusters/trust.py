"""Which authorities Penstock's JVMs trust: Java's own, and beside them those of a lake that has others.

A JVM reads a single trust store, so one is made of both by the JDK's own keytool, and kept until either changes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from penstock.certificates import certificates
from penstock.clusters.jvm import Java
from penstock.errors import MissingRequirement

# The JDK's own for the one it comes with; it keeps no secret: certificates are public.
_PASSWORD = "changeit"  # noqa: S105


def options(java: Java, authorities: Path | None, *, cache: Path) -> list[str]:
    """Options of a JVM that trusts the certificates of that file, too; none where there is no file.

    The trust store is made in `cache` unless it is there: a second or two. Raises `InvalidInput` for a file without
    certificates, `MissingRequirement` where keytool fails.
    """
    if authorities is None:
        return []
    store = _store(java, certificates(str(authorities)), cache)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _store(java: Java, trusted: list[str], cache: Path) -> Path:
    public = java.home / "lib" / "security" / "cacerts"
    try:
        known = public.stat()
    except OSError as error:
        raise _failed(java, f"{public}: {error.strerror}") from error
    content = "".join([str(public), str(known.st_mtime_ns), str(known.st_size), *trusted])
    target = cache / f"trust-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jks"
    if not target.exists():
        # Two at once make the same, and the later takes the earlier's place.
        with tempfile.TemporaryDirectory(prefix=".trust-", dir=cache) as name:
            made = Path(name) / "store"
            # A store without a password on its certificates, whatever the form of the JDK's own.
            _keytool(
                java,
                *("-importkeystore", "-srckeystore", str(public), "-srcstorepass", _PASSWORD),
                *("-destkeystore", str(made), "-deststoretype", "JKS", "-deststorepass", _PASSWORD),
            )
            for number, certificate in enumerate(trusted):
                one = Path(name) / "certificate.pem"
                one.write_text(certificate, encoding="ascii")
                _keytool(
                    java,
                    *("-importcert", "-file", str(one), "-alias", f"lake-{number}"),
                    *("-keystore", str(made), "-storepass", _PASSWORD),
                )
            made.replace(target)
    return target


def _keytool(java: Java, *arguments: str) -> None:
    done = subprocess.run(
        [str(java.home / "bin" / "keytool"), *arguments, "-noprompt", "-J-Xshare:auto"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    if done.returncode != 0:
        raise _failed(java, " ".join((done.stdout + done.stderr).split())[-300:])


def _failed(java: Java, why: str) -> MissingRequirement:
    return MissingRequirement(
        "Java cannot be made to trust the lake's authority",
        why=why,
        fix=f"repair {java.home}, or use another Java: PENSTOCK_JAVA_HOME=/path",
    )
