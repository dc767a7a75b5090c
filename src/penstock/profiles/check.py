"""The check of a user's settings before launch: it reports settings that would fail late or have no effect.

It refuses settings that the engine controls (the finding names the corresponding option of `penstock run`), and
secrets, since settings are visible in the event log, the records and the web UI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize
from penstock.profiles import base, rules, s3a
from penstock.profiles.known import HADOOP_PREFIX, Registry
from penstock.profiles.rules import Problem, Severity, error, warning

_OPTIONS = {
    "spark.app.name": "--name",
    "spark.jars": "--jars",
    "spark.files": "--files",
    "spark.submit.pyFiles": "--py-files",
}

_SIZES: dict[str, tuple[str, Callable[[ClusterSize], int]]] = {
    "spark.driver.cores": ("--driver-cores", lambda size: size.driver.cores),
    "spark.driver.memory": ("--driver-memory", lambda size: size.driver.memory_bytes),
    "spark.executor.instances": ("--executors", lambda size: size.executors),
    "spark.executor.cores": ("--executor-cores", lambda size: size.executor.cores),
    "spark.executor.memory": ("--executor-memory", lambda size: size.executor.memory_bytes),
    "spark.cores.max": ("--executors and --executor-cores", lambda size: size.executor_cores),
}

PENSTOCK_PREFIX = "spark.penstock."
"""The prefix of settings between the engine and its cluster; users may set those of `_may_users_set`."""

_PER_APPLICATION = "each application has a cluster of its own, and this setting connects the two"
_ONE_CLUSTER = "driver and executors of a cluster share a secret that is created for it"
_REDACTION = "it hides passwords and keys in logs, the event log and the Spark UI, which others can read"
_ENGINE = {
    "spark.master": _PER_APPLICATION,
    "spark.remote": _PER_APPLICATION,
    "spark.submit.deployMode": "the driver always runs inside the application's own cluster",
    "spark.app.id": _PER_APPLICATION,
    "spark.local.dir": "scratch is private to the cluster and removed with it",
    "spark.eventLog.dir": "the event log is stored in the lake: penstock logs ID",
    "spark.authenticate": _ONE_CLUSTER,
    "spark.redaction.regex": _REDACTION,
    "spark.redaction.string.regex": _REDACTION,
    "spark.driver.host": _PER_APPLICATION,
    "spark.driver.port": _PER_APPLICATION,
    "spark.driver.bindAddress": _PER_APPLICATION,
}


_AUTHENTICATION = "spark.authenticate.secret"
"""The prefix of the keys of the secret's files; `secrets_in` refuses the secret itself."""

KUBERNETES_PREFIX = "spark.kubernetes."
KUBERNETES_USER_SETTINGS = (
    "spark.kubernetes.allocation.batch.delay",
    "spark.kubernetes.allocation.batch.size",
    "spark.kubernetes.allocation.driver.readinessTimeout",
    "spark.kubernetes.allocation.executor.timeout",
    "spark.kubernetes.executor.apiPollingInterval",
    "spark.kubernetes.executor.checkAllContainers",
    "spark.kubernetes.executor.eventProcessingInterval",
    "spark.kubernetes.executor.missingPodDetectDelta",
)
"""The settings of Kubernetes that users may set: when Spark requests executors, and when it declares one lost.

The others determine the content of a pod, its owner and its access. Pods of all queues share one namespace, where a pod
may mount every secret and volume; an annotation or a label can give it a role at the cloud provider, or the traffic of
another application. An administrator sets these for all users in the cluster's file.
"""

_SHARED = "pods of all queues share one namespace, and this can give a pod access to what belongs to another queue"
_CLUSTER_FILE = (
    "have an administrator add it to executor_template: in the cluster's file, where it applies to all users"
)
_KUBERNETES_FIXES = (
    (
        r"(driver|executor)\.(secrets|secretKeyRef)\.",
        f"omit it for the lake's credentials, which pods have already; for another secret, {_CLUSTER_FILE}",
    ),
    (r"(driver|executor)\.podTemplate|(.*\.)?(volumes|label|annotation|node\.selector)\.", _CLUSTER_FILE),
    (r"(executor\.)?(request|limit)\.cores", "use --executor-cores"),
    (r"memoryOverheadFactor", "use spark.driver.memoryOverheadFactor and spark.executor.memoryOverheadFactor"),
    (r"namespace|(driver\.|executor\.)?container\.image|authenticate\.", "omit it: the cluster's file sets it"),
)


def reserved_settings(settings: Mapping[str, str], size: ClusterSize | None) -> Iterator[Problem]:
    for key, value in settings.items():
        if option := _OPTIONS.get(key):
            yield error(key, problem=f"{key} cannot be set", why="Penstock sets it itself", fix=f"use {option} instead")
        elif key in _ENGINE or (key.startswith(PENSTOCK_PREFIX) and not _may_users_set(key)):
            why = _ENGINE.get(key, "Penstock's engine sets it for its cluster")
            yield error(key, problem=f"{key} cannot be set", why=why, fix=f"omit --conf {key}=…")
        elif key.startswith(_AUTHENTICATION):
            yield error(key, problem=f"{key} cannot be set", why=_ONE_CLUSTER, fix=f"omit --conf {key}=…")
        elif key.startswith(KUBERNETES_PREFIX) and key not in KUBERNETES_USER_SETTINGS:
            yield error(key, problem=f"{key} cannot be set", why=_SHARED, fix=_kubernetes_fix(key))
        elif key in _SIZES:
            yield _size_given_twice(key, value, size)


def _may_users_set(key: str) -> bool:
    return key in (base.SCRATCH_MEMORY, base.SCRATCH_DISK) or key.startswith(s3a.SKIPPING_PREFIX)


def _kubernetes_fix(key: str) -> str:
    part = key.removeprefix(KUBERNETES_PREFIX)
    names = ", ".join(name.removeprefix(KUBERNETES_PREFIX) for name in KUBERNETES_USER_SETTINGS)
    default = f"omit it; of {KUBERNETES_PREFIX}*, users can set {names}"
    return next((fix for pattern, fix in _KUBERNETES_FIXES if re.match(pattern, part)), default)


def _size_given_twice(key: str, value: str, size: ClusterSize | None) -> Problem:
    option, read = _SIZES[key]
    fix = f"use {option} only"
    if size is None:
        return error(key, problem=f"{key} cannot be set", why="options determine the size of a cluster", fix=fix)
    # Spark counts a bare memory size in MiB.
    given = units.parse_size(value, unit="m" if key.endswith("memory") else "b")
    if given == read(size):
        return warning(key, problem=f"{key} repeats {option}", fix=fix)
    return error(
        key,
        problem=f"{key}={value} contradicts {option}",
        why=f"the cluster has {_shown(key, read(size))}",
        fix=fix,
    )


def _shown(key: str, amount: int) -> str:
    return f"{amount >> 20} MiB" if key.endswith("memory") else str(amount)


# The last part of the key decides: `…credentials.provider` is the name of a class, `…secret.file` of a file.
_SECRET_NAME = re.compile(
    r"(?i)(password|passwd|passphrase|secret|token|secret[._-]?(access[._-]?)?key|access[._-]?key([._-]?id)?"
    r"|encryption[._-]key|private[._-]?key|api[._-]?key|client[._-]?secret|account[._-]key([._].*)?)$"
)

REDACTION = (
    r"(?i)secret|passw(or)?d|passphrase|token|access[._-]?key|account[._-]key|private[._-]?key|api[._-]?key"
    r"|encryption[._-]key|://[^/\s:@]+:[^/\s@]+@"
)
"""`spark.redaction.regex` of every cluster: Spark hides a value if it or its key matches.

It is Spark's own pattern, with the names and addresses that are refused as settings: a program can still set them.
"""

# Names of Kubernetes objects, and of keys inside them: `reserved_settings` refuses them with a better reason.
_NAMES_ONLY = re.compile(
    r"spark\.kubernetes\.(.*\.secrets?\.|.*secretKeyRef\.|kerberos\.|container\.image\.pullSecrets)"
)

_SECRET_VALUES = (
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), "it contains an AWS access key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "it contains a private key"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@"), "it contains an address with a password"),
    (re.compile(r"(?i)[?&;](password|pwd)=[^&;\s]+"), "it contains an address with a password"),
    (
        re.compile(r"(?i)(^|\s)'?-D\S*(password|passwd|secret|secret\.?key|accessKeyId|token)=\S"),
        "it passes a secret to Java on the command line, which the list of processes shows",
    ),
)

_LAKE_FIX = (
    "penstock lake add NAME --endpoint URL --bucket BUCKET prompts for the keys and stores them in a private file"
)
_OTHER_FIX = (
    "write it to a file that only you can read and let the application read the file, "
    "or use the corresponding *.file setting if Spark has one"
)


def secrets_in(settings: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in settings.items():
        if why := _holds_secret(key, value):
            about_s3 = ".fs.s3a." in key or "AWS_" in key
            yield error(
                key,
                problem=f"{key} is a secret, or contains one",
                why=f"{why}; settings are written to the event log and the records",
                fix=_LAKE_FIX if about_s3 else _OTHER_FIX,
            )


def is_secret(key: str, value: str) -> bool:
    """Return whether the value must not be shown."""
    return _holds_secret(key, value) is not None


def _holds_secret(key: str, value: str) -> str | None:
    if not value.strip():
        return None
    # A boolean is no secret whatever its name, and the ARN of a KMS key grants no access.
    harmless = value.strip().lower() in {"true", "false"} or value.startswith("arn:")
    if not harmless and _SECRET_NAME.search(key) and not _NAMES_ONLY.match(key):
        return "its name is that of a secret"
    return next((why for pattern, why in _SECRET_VALUES if pattern.search(value)), None)


# Below these prefixes Spark accepts any name (environment variables, plug-in catalogs, resource types, labels), or a
# module that the registry does not cover reads them.
_OPEN = (
    "spark.connect.",
    "spark.executorEnv.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.network.crypto.config.",
    "spark.sql.catalog.",
    "spark.ssl.",
    "spark.streaming.",
    "spark.driver.resource.",
    "spark.executor.resource.",
    "spark.task.resource.",
    "spark.yarn.",
)
_S3A = HADOOP_PREFIX + "fs.s3a."


def check(
    settings: Mapping[str, str],
    known: Registry,
    *,
    size: ClusterSize | None = None,
    beneath: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return all problems of a user's settings, errors first. Pure.

    `beneath` are the settings of the profile, resolved: contradictions with these are reported too, but not those among
    them alone. `size` is the size by the options of `penstock run`, if any.
    """
    merged = {**(beneath or {}), **settings}
    secret = list(secrets_in(settings))
    hidden = {key for problem in secret for key in problem.keys}
    shown = {key: value for key, value in settings.items() if key not in hidden}
    misspelt = list(_misspelt(shown, known))
    typos = {key for problem in misspelt if problem.severity is Severity.ERROR for key in problem.keys}
    found = [
        *secret,
        # For a typo, the finding suggests the right key instead of refusing the misspelt one.
        *reserved_settings({key: value for key, value in shown.items() if key not in typos}, size),
        *misspelt,
        *_wrong_kind(shown, known),
        *(problem for problem in rules.violations(merged, size) if any(key in shown for key in problem.keys)),
    ]
    return sorted(found, key=lambda problem: problem.severity is not Severity.ERROR)


def raise_errors(problems: Sequence[Problem]) -> None:
    """Raise `InvalidInput` with all errors among the problems, if any."""
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if not errors:
        return
    if len(errors) == 1:
        (only,) = errors
        raise InvalidInput(only.problem, why=only.why, fix=only.fix)
    raise InvalidInput(
        f"{len(errors)} settings cannot be used",
        why="\n".join(f"- {problem.problem}" + (f": {problem.why}" if problem.why else "") for problem in errors),
        fix="\n".join(f"- {problem.fix}" for problem in errors if problem.fix),
    )


def _misspelt(settings: Mapping[str, str], known: Registry) -> Iterator[Problem]:
    for key in settings:
        if not key.startswith("spark."):
            yield _not_sparks(key, known)
        elif known.get(key) is None and not _unknowable(key):
            if near := known.closest(key):
                yield _typo(key, near, known)
            elif key.startswith(_S3A):
                yield warning(key, problem=f"this release of S3A has no setting {key.removeprefix(HADOOP_PREFIX)}")
            elif _sparks_own(key, known) and not key.startswith(PENSTOCK_PREFIX):
                yield warning(key, problem=f"this release of Spark has no setting {key}")


def _not_sparks(key: str, known: Registry) -> Problem:
    proper = HADOOP_PREFIX + key
    if known.get(proper):
        return error(key, problem=f"{key} is a setting of Hadoop", why="Spark ignores it", fix=f"--conf {proper}=…")
    near = known.closest(key) or known.closest("spark." + key)
    return error(
        key,
        problem=f"{key} is not a Spark setting",
        why="Spark ignores every setting that does not begin with spark.",
        fix=f"--conf {near}=…" if near else f"--conf spark.{key}=…",
    )


def _typo(key: str, near: str, known: Registry) -> Problem:
    # In a user's own name space, and for names that differ by more than a typo, the similarity may be chance.
    certain = known.is_typo(key, near) and (_sparks_own(key, known) or key.lower() == near.lower())
    return (error if certain else warning)(
        key,
        problem=f"this release of Spark has no setting {key}",
        why="Spark silently ignores unknown settings",
        fix=f"did you mean --conf {near}=… ?",
    )


def _sparks_own(key: str, known: Registry) -> bool:
    return key.startswith(_S3A) or key.split(".")[1] in known.name_spaces


def _unknowable(key: str) -> bool:
    return key.startswith(_OPEN) or (key.startswith(HADOOP_PREFIX) and not key.startswith(_S3A))


def _wrong_kind(settings: Mapping[str, str], known: Registry) -> Iterator[Problem]:
    for key, value in settings.items():
        setting = known.get(key)
        if setting is None:
            continue
        if expected := setting.expected(value):
            example = f", for example {setting.default}" if setting.default and "<" not in setting.default else ""
            yield error(key, problem=f"{key}={value} is not {expected}", fix=f"give {expected}{example}")
        if setting.deprecated:
            yield warning(key, problem=f"{key} is deprecated", why=setting.deprecated)
