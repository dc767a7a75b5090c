"""The credentials of an application, as the drivers of this folder's engines find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.engines import access
from penstock.engine.engines.access import LakeAccess
from penstock.home import write_atomically
from penstock.lake.model import Credentials, Lake
from penstock.lake.settings import private_credentials_file


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "aws-credentials"
    write_atomically(file, private_credentials_file(Credentials("first", "it's hidden", "token")))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "penstock")
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.01)
    return file


@pytest.fixture
def lake(credentials: Path) -> LakeAccess:
    return LakeAccess(Lake("near", ("https://a.example:8443",), "bucket", "environment", path_style=False))
