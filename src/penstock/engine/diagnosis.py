"""Why a driver failed, in the user's words, from the end of what it wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.application import Reason
from penstock.engine.lifecycle import DRIVER_FAILED


@dataclass(frozen=True)
class _Sign:
    pattern: re.Pattern[str]
    code: str
    message: Callable[[re.Match[str]], str]
    fix: str


def _sign(pattern: str, code: str, message: str, fix: str) -> _Sign:
    # Spark quotes each part of a name: `sales`.`orders`.
    return _Sign(re.compile(pattern), code, lambda found: message.format(*found.groups()).replace("`", ""), fix)


# The most particular first; the first that is found anywhere in the text decides.
_SIGNS = (
    _sign(
        r"ModuleNotFoundError: No module named '([^']+)'",
        "module_missing",
        "the Python module “{0}” is not there",
        "bring it along with --py-files (a .py, .zip, .egg or .whl file), or install it beside Penstock",
    ),
    _sign(
        r"Failed to load class ([\w.$]*\w)",
        "class_missing",
        "the class {0} is in none of the jars",
        "check --class against the jar (unzip -l APP.jar), and add what it needs with --jars",
    ),
    _sign(
        r"(?:ClassNotFoundException|NoClassDefFoundError): ([\w.$/]+)",
        "class_missing",
        "the class {0} is in none of the jars",
        "add the jar that holds it with --jars",
    ),
    _sign(
        r"No space left on device",
        "disk_full",
        "a disk is full",
        "free some space where the state directory is (df -h), or choose another with PENSTOCK_HOME=/path",
    ),
    _sign(
        r"java\.lang\.OutOfMemoryError: ([^\n]+)",
        "out_of_memory",
        "a JVM's memory was too small ({0})",
        "give more with --driver-memory or --executor-memory",
    ),
    _sign(
        r"\[PATH_NOT_FOUND\][^\n]*?: ([^\n]+?)\.? SQLSTATE",
        "path_missing",
        "there is nothing at {0}",
        "penstock lake ls shows what the lake holds",
    ),
    _sign(
        r"\[TABLE_OR_VIEW_NOT_FOUND\][^\n]*?`([^\n]+?)` cannot be found",
        "table_missing",
        "there is no table or view {0}",
        "penstock tables lists the tables",
    ),
    _sign(
        r"(?:UnknownHostException|Connection refused|ConnectException|connect timed out)[^\n]*",
        "unreachable",
        "a server it needs does not answer",
        "penstock lake check tells whether it is the lake; penstock up starts the embedded one",
    ),
    _sign(
        r"(?:InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|Status Code: 403)",
        "lake_refused",
        "the lake refused the credentials, or the access",
        "penstock lake check; then penstock lake add NAME … again with the right keys",
    ),
    _sign(
        r"(?:NoSuchBucket|UnknownStoreException)[^\n]*",
        "bucket_missing",
        "the lake's bucket does not exist",
        "create it, or name another: penstock lake add NAME --endpoint URL --bucket BUCKET",
    ),
)

_KILLED = 128 + 9
_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more|File \")|^Traceback \(most recent")
_NOISE = re.compile(r"^(WARNING|WARN|INFO|\d\d/\d\d/\d\d )")


def of_failure(exit_code: int | None, errors: str) -> Reason:
    """`errors` is the end of the driver's standard error."""
    # What its children say after it was killed (a Python that lost its JVM) is about them, not about the cause.
    if exit_code == _KILLED:
        return Reason(
            "killed",
            "the driver was killed from outside, most likely because the machine ran out of memory",
            "give it less to do on the driver, or ask for less of this machine: --driver-memory, --executor-memory",
        )
    for sign in _SIGNS:
        if found := sign.pattern.search(errors):
            return Reason(sign.code, sign.message(found), sign.fix)
    last = _last_words(errors)
    message = f"the driver ended with exit code {exit_code}" + (f": {last}" if last else "")
    return Reason(DRIVER_FAILED, message, "penstock logs ID --stream err shows all that it said")


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not _FRAME.match(line)]
    said = [line for line in lines if not _NOISE.match(line)]
    return (said or [""])[-1][:300]
