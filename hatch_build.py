"""The build hook behind `pip install .`: makes sure that the jars are there before the wheel is put together."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = {"target"}
"""Directories below `jvm/` that the build itself writes."""

TESTS = "src/test"
"""Sources of a module that no jar is made of."""


class JarsBuildHook(BuildHookInterface[Any]):
    """Runs the Maven build when `src/penstock/jars` is empty or older than the sources under `jvm`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's interface
        root = Path(self.root)
        sources = root / "jvm"
        # Written last by the Maven build: where it is, the jars beside it are whole.
        manifest = root / "src" / "penstock" / "jars" / "manifest.json"
        if self.target_name != "wheel" or not stale(manifest, sources):
            return
        self.app.display_info("Building Penstock's jars with Maven; the first time it also fetches what they need.")
        build(sources)
        if not manifest.is_file():
            raise SystemExit(f"The Maven build ended well but left no {manifest}. Report this as a defect of Penstock.")


def stale(manifest: Path, sources: Path) -> bool:
    """Whether the jars are missing, or any source is newer. Without sources (a stripped copy) what is there counts."""
    if not manifest.is_file():
        return True
    return newest(sources) > manifest.stat().st_mtime


def newest(directory: Path) -> float:
    """The latest modification below a directory; directories count too, so that a deleted file is noticed."""
    if not directory.is_dir() or directory.name in BUILT or directory.match(TESTS):
        return 0.0
    children = list(directory.iterdir())
    files = [child.stat().st_mtime for child in children if child.is_file()]
    below = [newest(child) for child in children if child.is_dir()]
    # Of the directories that hold build output the times say nothing: the build changes them.
    own = [] if any(child.name in BUILT for child in children) else [directory.stat().st_mtime]
    return max([*files, *below, *own], default=0.0)


def build(sources: Path) -> None:
    for program, package in (("java", "openjdk-17-jdk-headless"), ("mvn", "maven")):
        if shutil.which(program) is None:
            raise SystemExit(
                f"Penstock's jars are not built yet, and '{program}' to build them is not on the PATH.\n"
                "Why: the package carries jars that are compiled from the sources under jvm/ with Java 17 and Maven.\n"
                f"Fix: sudo apt-get install {package}   (or install a wheel of Penstock: it has the jars in it)"
            )
    # The tests are run by `make test`; who installs the package wants the jars.
    command = ["mvn", "-B", "-q", "-f", str(sources / "pom.xml"), "package", "-Dmaven.test.skip=true"]
    outcome = subprocess.run(command, check=False)
    if outcome.returncode != 0:
        raise SystemExit(
            f"Building Penstock's jars failed (exit code {outcome.returncode}).\n"
            "Why: Maven's messages are above; the usual causes: no network, or a JDK older than 17 (mvn -version).\n"
            f"Fix: {' '.join(command)}"
        )
