"""The resolution of a submission, once and before a cluster is started for it: checks, derived values, settings."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from penstock.catalog.database import SHARED_LOGIN
from penstock.clusters.backend import ClusterBackend
from penstock.engine.engines.registry import engine_of
from penstock.engine.policy import admission, lifecycle
from penstock.engine.webhooks import validate_url
from penstock.errors import ClusterError, InvalidInput, NotFound, PenstockError
from penstock.model import OWN_PROGRAMS, ApplicationSpec, Capacity, ClusterSize
from penstock.profiles import layers
from penstock.profiles.base import scratch_memory_bytes
from penstock.profiles.check import check, raise_errors
from penstock.profiles.rules import Problem, Severity

_REMOTE = re.compile(r"(s3a|hdfs|https?)://")
_SECRET_NAME = re.compile(r"(?i)(secret|password|passwd|token|private_?key|access_?key)")
_KEY = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")
_MOST_PRIORITY = 100
_MOST_WEBHOOKS = 5
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Submission:
    """A submission that can run, with all that is derived from it."""

    spec: ApplicationSpec
    """With absolute paths, a jar's own main class, and the memory for overheads and scratch."""
    settings: Mapping[str, str]
    """The effective settings of profile and user; those of lake and catalog come with the launch."""
    warnings: tuple[str, ...]
    """Settings that likely miss their purpose or are unsafe, although the application can run."""


def resolve(spec: ApplicationSpec, backend: ClusterBackend, *, shares_login: bool = False) -> Submission:
    """Check the submission and derive its values; nothing is recorded or started.

    `shares_login`: see `Database.shares_login`. Raises `InvalidInput`, `NotFound`, `MissingRequirement` and
    `ClusterError`.
    """
    spec = validate(spec)
    engine_of(spec).check(spec, backend)
    found = _problems(spec)
    raise_errors(found)
    settings = effective_settings(spec)
    spec = with_all_memory(spec, settings, backend.overhead_factor(spec))
    capacity = backend.capacity()
    if too_large := admission.too_large(spec.size, capacity):
        raise ClusterError("The cluster does not fit here", why=too_large.message, fix=too_large.fix)
    backend.check(spec)
    return Submission(spec, settings, _warnings(spec, found, lambda: capacity, shares_login=shares_login))


def warnings_again(spec: ApplicationSpec, backend: ClusterBackend, *, shares_login: bool) -> tuple[str, ...]:
    """The warnings of a specification that was accepted before, whose files may be gone by now."""
    return _warnings(spec, _problems(spec), backend.capacity, shares_login=shares_login)


def effective_settings(spec: ApplicationSpec) -> Mapping[str, str]:
    """The settings of profile and user; none but for Spark. Raises `NotFound` (unknown profile) and `InvalidInput`."""
    if not engine_of(spec).has_executors:
        return {}
    return _resolved(spec.profile, spec.size, tuple(spec.settings.items()))


def with_all_memory(spec: ApplicationSpec, settings: Mapping[str, str], overhead_factor: float) -> ApplicationSpec:
    """Return the specification with the memory for scratch and overheads that its effective settings give.

    It is promised like the heaps. `overhead_factor`: see `ClusterBackend.overhead_factor`.
    """
    size = layers.with_overheads(spec.size, settings, factor=overhead_factor, python=spec.is_python)
    return replace(spec, size=replace(size, scratch_memory_bytes=scratch_memory_bytes(settings)))


@lru_cache(maxsize=64)
def _resolved(profile: str, size: ClusterSize, user: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    # Cached, since a client that submits a thousand applications submits the same size each time.
    from penstock.profiles.workloads import profile_layers

    return MappingProxyType(layers.resolve(profile_layers(profile), size, dict(user)).values())


def _problems(spec: ApplicationSpec) -> Sequence[Problem]:
    if not engine_of(spec).has_executors:
        return []
    beneath = _resolved(spec.profile, spec.size, ())  # the profile must exist even if the user set nothing
    if not spec.settings:
        return []
    from penstock.profiles.known import bundled_registry

    return check(spec.settings, bundled_registry(), size=spec.size, beneath=beneath)


def _warnings(
    spec: ApplicationSpec, problems: Sequence[Problem], capacity: Callable[[], Capacity], *, shares_login: bool
) -> tuple[str, ...]:
    found = [str(problem) for problem in problems if problem.severity is Severity.WARNING]
    # A warning must not fail a submission that can run.
    with contextlib.suppress(PenstockError):
        if waits := admission.waits_for(spec.size, capacity()):
            found.append(f"the cluster exceeds today's capacity: {waits.message}")
    return (*found, SHARED_LOGIN) if shares_login else tuple(found)


def validate(spec: ApplicationSpec) -> ApplicationSpec:
    """Return the specification with derived values filled in (absolute paths, a jar's own main class).

    Raises `InvalidInput` or `NotFound`.
    """
    spec = _with_absolute_paths(spec)
    _check_size(spec)
    _check_environment(spec)
    _check_service(spec)
    for option, paths in (("--jars", spec.jars), ("--py-files", spec.python_files), ("--files", spec.files)):
        for path in paths:
            _require_file(path, option)
    if spec.application in OWN_PROGRAMS:
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
        return path if _REMOTE.match(path) or path in OWN_PROGRAMS else str(Path(path).expanduser().absolute())

    return spec.with_paths(absolute)


def _check_size(spec: ApplicationSpec) -> None:
    size = spec.size
    executors = (("--executors", size.executors),) if engine_of(spec).has_executors else ()
    for what, amount in (
        ("--driver-cores", size.driver.cores),
        ("--executor-cores", size.executor.cores),
        *executors,
    ):
        if amount < 1:
            raise InvalidInput(f"{what} {amount} is invalid", why="a cluster needs at least one", fix=f"{what} 1")
    for what, memory in (
        ("--driver-memory", size.driver.memory_bytes),
        ("--executor-memory", size.executor.memory_bytes),
    ):
        if memory < 450 << 20:
            raise InvalidInput(
                f"{what} {memory >> 20}m is too little", why="Spark refuses to start below 450 MiB", fix=f"{what} 512m"
            )
    if spec.time_limit_seconds is not None and spec.time_limit_seconds <= 0:
        raise InvalidInput("--time-limit must be greater than zero", fix="--time-limit 2h")


def _check_environment(spec: ApplicationSpec) -> None:
    for name, value in spec.environment.items():
        if not _VARIABLE.fullmatch(name):
            raise InvalidInput(f"“{name}” is not a valid name of an environment variable", fix="--env NAME=VALUE")
        if layers.carries_settings(name, value):
            raise InvalidInput(
                f"The environment variable {name} holds a Spark setting, or names a file of options",
                why="Java would read it without Penstock's checks of settings",
                fix="--conf spark.NAME=VALUE",
            )
        if _SECRET_NAME.search(name):
            raise InvalidInput(
                f"The environment variable {name} looks like a secret",
                why="an application's environment is recorded and shown by penstock show",
                fix="put it into a file that only you can read, and let the application read that file; "
                "Penstock itself passes the lake's credentials",
            )


def _check_service(spec: ApplicationSpec) -> None:
    """Check the fields that only a queue and a service use."""
    if not -_MOST_PRIORITY <= spec.priority <= _MOST_PRIORITY:
        raise InvalidInput(f"priority must be from −{_MOST_PRIORITY} to {_MOST_PRIORITY}", fix="the default is 0")
    if not 0 <= spec.retries <= lifecycle.MOST:
        raise InvalidInput(f"retries must be from 0 to {lifecycle.MOST}", fix="the default is 0")
    if len(spec.webhooks) > _MOST_WEBHOOKS:
        raise InvalidInput(f"an application has at most {_MOST_WEBHOOKS} webhooks", fix="let one forward to the others")
    for url in spec.webhooks:
        validate_url(url)
    if spec.idempotency_key is not None and not _KEY.fullmatch(spec.idempotency_key):
        raise InvalidInput(
            "The idempotency key is invalid", why="it must have 1 to 255 printable ASCII characters", fix="use a UUID"
        )


def _require_file(path: str, what: str) -> None:
    if _REMOTE.match(path):
        return
    if not Path(path).exists():
        raise NotFound(
            f"There is no file {path}",
            why=f"{what} names it",
            fix=f"ls -l '{Path(path).parent}' lists the directory; for a file in the lake, write s3a://BUCKET/…",
        )
    if not Path(path).is_file() or not os.access(path, os.R_OK):
        raise InvalidInput(f"{path} cannot be read", why=f"{what} needs a readable file", fix=f"ls -l '{path}'")


def _checked_python(spec: ApplicationSpec) -> ApplicationSpec:
    if spec.main_class:
        raise InvalidInput("--class is for jars", why=f"{spec.application} is a Python file", fix="leave out --class")
    if not _REMOTE.match(spec.application):
        for module in missing_modules(Path(spec.application), [Path(path) for path in spec.python_files]):
            raise NotFound(
                f"The Python module “{module}” is missing",
                why=f"{spec.application} imports it",
                fix="add it with --py-files, or install it in Penstock's environment: "
                f"'{sys.executable}' -m pip install {module}",
            )
    return spec


def missing_modules(application: Path, python_files: list[Path]) -> Iterator[str]:
    """Top-level modules that the file imports unconditionally and that are found nowhere on its path.

    Imports inside functions, conditions and `try` may be meant to fail, and a file that changes `sys.path` may have
    other places: these are not reported. Nor is a file that does not parse, which Python itself reports best.
    """
    try:
        source = application.read_text(encoding="utf-8")
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    if "sys.path" in source or any(path.suffix != ".py" for path in python_files):
        return
    shipped = {path.stem for path in python_files}
    for name in dict.fromkeys(_imported(body)):
        sibling = application.parent / name
        if name in shipped or sibling.is_dir() or sibling.with_suffix(".py").exists():
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
            f"{spec.application} is not a jar", why=str(error), fix="rebuild it, or name the right file"
        ) from error
    main = spec.main_class or declared
    if not main:
        raise _no_class(spec)
    # Another jar may contain the class; without other jars, it must be in this one.
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
