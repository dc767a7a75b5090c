"""Runs a program of the lab in a JVM of its own, with the settings that an application of the run would have.

For measurements of the file system alone: no cluster, no scheduler, nothing else that would use the processor. Class
path, flags and settings are those of an executor.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.clusters import launch
from penstock.clusters.launch import BUILT_IN
from penstock.engine import launch as engine_settings
from penstock.errors import ClusterError
from penstock.formats import as_properties
from penstock.home import write_atomically
from penstock.lab.session import Session
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec
from penstock.runtime import jvm

WRONG = 9
"""The exit code of a program whose checks found something wrong; its report tells what."""


def run(session: Session, main_class: str, arguments: Sequence[str]) -> None:
    """Run it to its end; it is told the file with its settings by `--settings`.

    Secrets are in a private file alone, which the environment names. Raises `ClusterError` with the end of its output
    where it failed.
    """
    with tempfile.TemporaryDirectory(prefix="program-", dir=session.bench.home.root) as name:
        private = Path(name)
        lake = session.bench.lake
        credentials = Lakes(session.bench.home).client_credentials(lake)
        for file, content in lake_settings.private_files(lake, credentials).items():
            write_atomically(private / file, content)
        made = _settings(session)
        write_atomically(private / "spark.conf", as_properties(made))
        java, lake = jvm.find_java(), session.bench.lake
        trusting = jvm.options(java, lake.authorities, cache=session.bench.home.cache)
        common = jvm.Jvm(java, jvm.class_path(), private=private, scratch=private, options=tuple(trusting))
        command = jvm.program_command(
            common,
            size=session.size.executor,
            main_class=main_class,
            arguments=(*arguments, "--settings", str(private / "spark.conf")),
        )
        done = subprocess.run(
            launch.with_user_options(command, made, "executor"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=_environment(private, lake),
            cwd=private,
            check=False,
        )
    if done.returncode not in (0, WRONG):
        raise ClusterError(
            f"{main_class} ended with exit code {done.returncode}", why="\n".join(done.stderr.splitlines()[-15:])
        )


def _settings(session: Session) -> dict[str, str]:
    spec = ApplicationSpec(BUILT_IN, session.size, "program", profile=session.profile, settings=session.settings)
    return engine_settings.resolved(spec, session.bench.lake).values()


def _environment(private: Path, lake: Lake) -> dict[str, str]:
    told = lake_settings.environment(lake)
    own = {name: value.replace("{private}", str(private)) for name, value in told.items()}
    # Without a locale of its own Java takes names of files outside ASCII for others.
    return {**own, "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": str(private)}
