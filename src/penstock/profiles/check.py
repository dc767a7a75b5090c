"""A user's settings judged before launch: what would fail an hour later, or silently do nothing, is said now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.engine.application import ClusterSize
from penstock.errors import InvalidInput
from penstock.profiles import contradictions, owned, secrets
from penstock.profiles.known import HADOOP_PREFIX, Registry
from penstock.profiles.problems import Problem, Severity, error, warning

# Under these Spark takes any name (environment variables, plug-in catalogs, resource types, labels), or a module reads
# them that the register is built without.
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
    """Everything wrong with a user's settings, errors first. Pure.

    `beneath` are the settings they go on top of (a resolved profile): a contradiction with those is found too, and one
    among those alone is not the user's to hear of. `size`, where given, is what `penstock run`'s options asked for.
    """
    merged = {**(beneath or {}), **settings}
    secret = list(secrets.find(settings))
    hidden = {key for problem in secret for key in problem.keys}
    shown = {key: value for key, value in settings.items() if key not in hidden}
    misspelt = list(_misspelt(shown, known))
    slips = {key for problem in misspelt if problem.severity is Severity.ERROR for key in problem.keys}
    found = [
        *secret,
        # Of a slip it is told what was meant, not that the name as it stands is taken.
        *owned.find({key: value for key, value in shown.items() if key not in slips}, size),
        *misspelt,
        *_wrong_kind(shown, known),
        *(problem for problem in contradictions.find(merged, size) if any(key in shown for key in problem.keys)),
    ]
    return sorted(found, key=lambda problem: problem.severity is not Severity.ERROR)


def refuse(problems: Sequence[Problem]) -> None:
    """Raise `InvalidInput` when one of the problems is an error; says all of them."""
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
                yield _slip(key, near, known)
            elif key.startswith(_S3A):
                yield warning(key, problem=f"S3A of this release knows no {key.removeprefix(HADOOP_PREFIX)}")
            elif _sparks_own(key, known) and not key.startswith(owned.PREFIX):
                yield warning(key, problem=f"Spark of this release knows no {key}")


def _not_sparks(key: str, known: Registry) -> Problem:
    proper = HADOOP_PREFIX + key
    if known.get(proper):
        return error(key, problem=f"{key} is a setting of Hadoop", why="Spark drops it", fix=f"--conf {proper}=…")
    near = known.closest(key) or known.closest("spark." + key)
    return error(
        key,
        problem=f"{key} is no Spark setting",
        why="Spark drops every setting that does not begin with spark.",
        fix=f"--conf {near}=…" if near else f"--conf spark.{key}=…",
    )


def _slip(key: str, near: str, known: Registry) -> Problem:
    # In a name space of the user's own, and between names that differ by more than a slip, likeness may be chance.
    certain = known.is_slip(key, near) and (_sparks_own(key, known) or key.lower() == near.lower())
    return (error if certain else warning)(
        key,
        problem=f"Spark of this release knows no {key}",
        why="a setting that is not known is ignored without a word",
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
        if expected := setting.expects(value):
            example = f", for example {setting.default}" if setting.default and "<" not in setting.default else ""
            yield error(key, problem=f"{key}={value} is not {expected}", fix=f"give {expected}{example}")
        if setting.deprecated:
            yield warning(key, problem=f"{key} is out of use", why=setting.deprecated)
