"""By its text, the Containerfile builds the same image as `penstock image build`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from penstock.image import contents

TEXT = (Path(__file__).parents[3] / "deploy" / "Containerfile").read_text("utf-8").replace("\\\n", " ")
SETTINGS: dict[str, Any] = contents.settings(contents.Base("/usr/lib/jvm/penstock", "3.11"), "1")


def instruction(name: str) -> str:
    return re.findall(rf"(?m)^{name} (.*)$", TEXT)[-1]


def test_it_installs_the_same_packages() -> None:
    installed = re.findall(r"apt-get install --yes --no-install-recommends ([^&\n]+)", TEXT)[-1]
    assert tuple(installed.split()) == contents.PACKAGES


def test_it_leaves_the_same_out() -> None:
    removed = re.search(r"rm -rf bin ([^&\n]+)", TEXT)
    assert removed is not None
    for name in contents.EXCLUDED:
        assert f"{name.replace('-', '_')}*" in removed[1].split()


def test_containers_run_the_same_way() -> None:
    assert sorted(instruction("ENV").split()) == sorted(SETTINGS["Env"])
    assert instruction("USER") == SETTINGS["User"]
    assert instruction("WORKDIR") == SETTINGS["WorkingDir"]
    assert json.loads(instruction("ENTRYPOINT")) == SETTINGS["Entrypoint"]
    assert json.loads(instruction("CMD")) == SETTINGS["Cmd"]


def test_its_user_is_the_same() -> None:
    assert contents.add_user("").strip() in TEXT
