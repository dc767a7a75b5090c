"""`penstock up`, `down` and `wipe`: nothing is left running, then nothing is left."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.clusters import machine
from penstock.engine.engine import Engine
from penstock.home import Home
from tests.support import quick_java
from tests.support.command import SMALL, WAITS, Command, running
from tests.support.waiting import processes_of


def processes_at(directory: Path) -> list[str]:
    """Return the processes whose command line or working directory is below `directory`."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                line = (process / "cmdline").read_bytes().decode(errors="replace")
                if str(directory) in line or directory in (process / "cwd").resolve().parents:
                    found.append(line.replace("\0", " "))
            except OSError:
                continue
    return found


def test_down_ends_what_runs_and_wipe_removes_what_is_kept(tmp_path: Path, class_archives: Path) -> None:
    home = Home(tmp_path / "home")
    quick_java.share_archives(home, class_archives)
    penstock, engine = Command(home), Engine(home)
    code, out, err = penstock.run("up", "--no-archives")
    assert code == 0, err
    assert "lake: s3a://" in out
    script = tmp_path / "waits.py"
    script.write_text(WAITS, encoding="utf-8")
    penstock.run("run", *SMALL, "--detach", "--name", "endless", str(script), str(tmp_path / "never"))
    application = running(engine, "endless")

    code, out, err = penstock.run("down")
    assert code == 0, err
    assert f"{application.id} stopped" in out
    assert processes_of(application.id) == []
    assert processes_at(home.root) == []
    assert penstock.run("down")[0] == 0

    found = json.loads(penstock.run("apps", "--json")[1])
    assert [one["state"] for one in found] == ["stopped"]
    assert penstock.run("wipe", "--yes")[0] == 0
    assert processes_at(home.root) == []
    assert not home.root.exists()
    assert not any(tier.directory.exists() for tier in machine.page_cache(home))
