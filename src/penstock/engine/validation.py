"""What can be known to be wrong with an application before a cluster is started for it."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from penstock.clusters.launch import BUILT_IN
from penstock.engine.policy import lifecycle
from penstock.engine.webhooks import checked_url
from penstock.errors import InvalidInput, NotFound
from penstock.model import ApplicationSpec
from penstock.profiles import layers

_REMOTE = re.compile(r"(s3a|hdfs|https?)://")
_SECRET_NAME = re.compile(r"(?i)(secret|password|passwd|token|private_?key|access_?key)")
_KEY = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")
_MOST_PRIORITY = 100
_MOST_WEBHOOKS = 5
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def checked(spec: ApplicationSpec) -> ApplicationSpec:
    """The same with what follows filled in (absolute paths, a jar's own main class).

    Raises `InvalidInput` or `NotFound`.
    """
    spec = _with_absolute_paths(spec)
    _check_size(spec)
    _check_environment(spec)
    _check_service(spec)
    for option, paths in (("--jars", spec.jars), ("--py-files", spec.python_files), ("--files", spec.files)):
        for path in paths:
            _require_file(path, option)
    if spec.application == BUILT_IN:
        return spec
    if not spec.is_python and not spec.application.lower().endswith(".jar"):
        raise InvalidInput(
            f"“{spec.application}” cannot be run",
            why="an application is a Python file (.py) or a jar (.jar)",
            fix="give the path of one, on this machine or in the lake (s3a://BUCKET/…)",
        )
    _require_file(spec.application, "the application")
    return _checked_python(spec) if spec.is_python else _checked_jar(spec)


def _with_absolute_paths(spec: ApplicationSpec) -> ApplicationSpec:
    def absolute(path: str) -> str:
        return path if _REMOTE.match(path) or path == BUILT_IN else str(Path(path).expanduser().absolute())

    return spec.with_paths(absolute)


def _check_size(spec: ApplicationSpec) -> None:
    size = spec.size
    for what, amount in (
        ("--driver-cores", size.driver.cores),
        ("--executor-cores", size.executor.cores),
        ("--executors", size.executors),
    ):
        if amount < 1:
            raise InvalidInput(f"{what} {amount} cannot be", why="a cluster needs at least one", fix=f"{what} 1")
    for what, memory in (
        ("--driver-memory", size.driver.memory_bytes),
        ("--executor-memory", size.executor.memory_bytes),
    ):
        if memory < 450 << 20:
            raise InvalidInput(
                f"{what} {memory >> 20}m is too little", why="Spark refuses to start below 450 MiB", fix=f"{what} 512m"
            )
    if spec.time_limit_seconds is not None and spec.time_limit_seconds <= 0:
        raise InvalidInput("--time-limit must be more than nothing", fix="--time-limit 2h")


def _check_environment(spec: ApplicationSpec) -> None:
    for name, value in spec.environment.items():
        if not _VARIABLE.fullmatch(name):
            raise InvalidInput(f"“{name}” cannot be an environment variable's name", fix="--env NAME=VALUE")
        if layers.carries_settings(name, value):
            raise InvalidInput(
                f"The environment variable {name} holds a Spark setting, or names a file of options",
                why="Java would read it past all checks of settings",
                fix="--conf spark.NAME=VALUE",
            )
        if _SECRET_NAME.search(name):
            raise InvalidInput(
                f"The environment variable {name} looks like a secret",
                why="an application's environment is kept in the records and shown by penstock show",
                fix="put it into a file only you can read, and let the application read that file; "
                "the lake's credentials reach it by themselves",
            )


def _check_service(spec: ApplicationSpec) -> None:
    """What only a queue and a service make use of."""
    if not -_MOST_PRIORITY <= spec.priority <= _MOST_PRIORITY:
        raise InvalidInput(f"priority must be from −{_MOST_PRIORITY} to {_MOST_PRIORITY}", fix="0 is usual")
    if not 0 <= spec.retries <= lifecycle.MOST:
        raise InvalidInput(f"retries must be from 0 to {lifecycle.MOST}", fix="0 is usual")
    if len(spec.webhooks) > _MOST_WEBHOOKS:
        raise InvalidInput(f"at most {_MOST_WEBHOOKS} webhooks can be told", fix="let one of them tell the others")
    for url in spec.webhooks:
        checked_url(url)
    if spec.idempotency_key is not None and not _KEY.fullmatch(spec.idempotency_key):
        raise InvalidInput(
            "That cannot be an idempotency key", why="it has 1 to 255 printable ASCII characters", fix="use a UUID"
        )


def _require_file(path: str, what: str) -> None:
    if _REMOTE.match(path):
        return
    if not Path(path).exists():
        raise NotFound(
            f"There is no file {path}",
            why=f"{what} names it",
            fix=f"ls -l '{Path(path).parent}' shows what is there; in the lake, write it as s3a://BUCKET/…",
        )
    if not Path(path).is_file() or not os.access(path, os.R_OK):
        raise InvalidInput(f"{path} cannot be read", why=f"{what} needs a readable file", fix=f"ls -l '{path}'")


def _checked_python(spec: ApplicationSpec) -> ApplicationSpec:
    if spec.main_class:
        raise InvalidInput("--class is for jars", why=f"{spec.application} is a Python file", fix="leave out --class")
    if not _REMOTE.match(spec.application):
        for module in missing_modules(Path(spec.application), [Path(path) for path in spec.python_files]):
            raise NotFound(
                f"The Python module “{module}” is not there",
                why=f"{spec.application} imports it",
                fix="bring it along with --py-files, or install it beside Penstock: "
                f"'{sys.executable}' -m pip install {module}",
            )
    return spec


def missing_modules(application: Path, python_files: list[Path]) -> Iterator[str]:
    """Top-level modules that the file imports in any case and that no place it could come from has.

    Imports inside functions, conditions and `try` may be meant to fail, and a file that changes `sys.path` knows places
    of its own: about those nothing is said. Neither is it about a file that does not parse; Python itself says it best.
    """
    try:
        source = application.read_text(encoding="utf-8")
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    if "sys.path" in source or any(path.suffix != ".py" for path in python_files):
        return
    brought = {path.stem for path in python_files}
    for name in dict.fromkeys(_imported(body)):
        beside = application.parent / name
        if name in brought or beside.is_dir() or beside.with_suffix(".py").exists():
            continue
        try:
            found = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            yield name


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            yield statement.module.partition(".")[0]


def _checked_jar(spec: ApplicationSpec) -> ApplicationSpec:
    if _REMOTE.match(spec.application):
        if not spec.main_class:
            raise _no_class(spec)
        return spec
    try:
        with zipfile.ZipFile(spec.application) as jar:
            entries = set(jar.namelist())
            declared = _declared_class(jar) if "META-INF/MANIFEST.MF" in entries else None
    except zipfile.BadZipFile as error:
        raise InvalidInput(
            f"{spec.application} is not a jar", why=str(error), fix="build it again, or name the right file"
        ) from error
    main = spec.main_class or declared
    if not main:
        raise _no_class(spec)
    # Another jar may bring it; where there is none, it must be in this one.
    if main.replace(".", "/") + ".class" not in entries and not spec.jars and not main.startswith("io.penstock."):
        raise NotFound(
            f"There is no class {main} in {spec.application}",
            why="--class names it" if spec.main_class else "the jar's manifest names it",
            fix=f"unzip -l '{spec.application}' shows the classes; write the package too, as in com.example.Main",
        )
    return replace(spec, main_class=main)


def _declared_class(jar: zipfile.ZipFile) -> str | None:
    manifest = jar.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
    found = re.search(r"^Main-Class:\s*(\S+)", manifest, re.MULTILINE)
    return found.group(1) if found else None


def _no_class(spec: ApplicationSpec) -> InvalidInput:
    return InvalidInput(
        f"{spec.application} needs a main class", why="its manifest names none", fix="--class com.example.Main"
    )
