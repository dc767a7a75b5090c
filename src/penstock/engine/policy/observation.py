"""Observations of a cluster as events of the lifecycle, and a driver's failure in the user's words. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.clusters.backend import Observation, Phase
from penstock.engine.policy.lifecycle import (
    DRIVER_FAILED,
    DRIVER_LOST,
    TIME_LIMIT,
    Blocked,
    ClusterSeen,
    ContextStarted,
    DriverEnded,
    EndRequested,
    Event,
    was_seen,
)
from penstock.model import Application, Reason, State


@dataclass(frozen=True)
class _Sign:
    pattern: re.Pattern[str]
    code: str
    message: Callable[[re.Match[str]], str]
    fix: str


def _sign(pattern: str, code: str, message: str, fix: str) -> _Sign:
    # Spark quotes each part of a name: `sales`.`orders`.
    return _Sign(re.compile(pattern), code, lambda found: message.format(*found.groups()).replace("`", ""), fix)


# The most specific first; the first that matches anywhere in the text decides.
_SIGNS = (
    _sign(
        r"ModuleNotFoundError: No module named '([^']+)'",
        "module_missing",
        "the Python module “{0}” is missing",
        "add it with --py-files (a .py, .zip, .egg or .whl file), or install it in Penstock's environment",
    ),
    _sign(
        r"Failed to load class ([\w.$]*\w)",
        "class_missing",
        "the class {0} is in none of the jars",
        "check --class against the jar (unzip -l APP.jar), and add its dependencies with --jars",
    ),
    _sign(
        r"(?:ClassNotFoundException|NoClassDefFoundError): ([\w.$/]+)",
        "class_missing",
        "the class {0} is in none of the jars",
        "add the jar that contains it with --jars",
    ),
    _sign(
        r"No space left on device",
        "disk_full",
        "a disk is full",
        "free some space on the state directory's disk (df -h), or choose another directory with PENSTOCK_HOME=/path",
    ),
    _sign(
        r"java\.lang\.OutOfMemoryError: ([^\n]+)",
        "out_of_memory",
        "a JVM ran out of memory ({0})",
        "increase --driver-memory or --executor-memory",
    ),
    _sign(
        r"\[PATH_NOT_FOUND\][^\n]*?: ([^\n]+?)\.? SQLSTATE",
        "path_missing",
        "there is nothing at {0}",
        "penstock lake ls lists the lake",
    ),
    _sign(
        r"\[TABLE_OR_VIEW_NOT_FOUND\][^\n]*?`([^\n]+?)` cannot be found",
        "table_missing",
        "there is no table or view {0}",
        "penstock tables lists the tables",
    ),
    _sign(
        r"(?:InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|Status Code: 403)",
        "lake_refused",
        "the lake refused the credentials or the access",
        "run penstock lake check, then penstock lake add NAME … again with the right keys",
    ),
    _sign(
        r"(?:NoSuchBucket|UnknownStoreException)[^\n]*",
        "bucket_missing",
        "the lake's bucket does not exist",
        "create it, or name another: penstock lake add NAME --endpoint URL --bucket BUCKET",
    ),
)

Server = tuple[str, int]
"""The host and port of a server of the lake or the catalog."""

_UNANSWERED = re.compile(
    r"refused|ConnectException|timed out|Could(?: not|n't) (?:connect|establish)|Failed to connect"
    r"|connection exception",
    re.IGNORECASE,
)
_UNRESOLVED = re.compile(
    r"UnknownHostException|Name or service not known|not translate host name|Temporary failure in name resolution"
    r"|Failed to resolve|resolve host",
    re.IGNORECASE,
)
_SPARK_TRANSPORT = re.compile(
    r"(?:Failed to connect to|Connecting to) [^\n]+\n\s+at org\.apache\.spark\.network\.client\.TransportClientFactory"
)
"""A connection between driver and executors or to a shuffle block: nothing else uses that class of Spark's."""
_DEFAULT_PORTS = {443: "https", 80: "http"}

_KILLED = 128 + 9
_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more|File \")|^Traceback \(most recent")
_NOISE = re.compile(r"^(WARNING|WARN|INFO|\d\d/\d\d/\d\d |Why: |Fix: |LINE \d+: |\^$)")
"""Lines that do not name a problem: logs, and what Penstock and DuckDB write below one."""


def failure_reason(exit_code: int | None, errors: str, servers: Collection[Server] = ()) -> Reason:
    """The reason of a driver's failure; `errors` is the end of its standard error.

    `servers` are those of the lake and the catalog. Only a failed connection to one of them, or within the cluster, is
    a failure of the infrastructure: an application connects to services of its own, too.
    """
    # After a kill, stderr holds the complaints of child processes (a Python that lost its JVM), not the cause.
    if exit_code == _KILLED:
        return Reason(
            "killed",
            "the driver was killed from outside, most likely because the machine ran out of memory",
            "give the driver less work, or use less of this machine's memory: --driver-memory, --executor-memory",
        )
    for sign in _SIGNS:
        if found := sign.pattern.search(errors):
            return Reason(sign.code, sign.message(found), sign.fix)
    if _SPARK_TRANSPORT.search(errors) or any(_reports_lost_connection(line, servers) for line in errors.splitlines()):
        return Reason(
            "unreachable",
            "the lake, the catalog or a process of its cluster does not answer",
            "penstock lake check shows whether the lake answers; penstock up starts the embedded one",
        )
    last = _last_words(errors)
    message = f"the driver ended with exit code {exit_code}" + (f": {last}" if last else "")
    return Reason(DRIVER_FAILED, message, "penstock logs ID --stream err shows its whole standard error")


def _reports_lost_connection(line: str, servers: Collection[Server]) -> bool:
    """Return whether the line reports a failed connection to one of `servers`."""
    if _UNRESOLVED.search(line):
        # The name may follow that of a bucket: bucket.s3.example.com.
        return any(re.search(rf"(?<![\w-]){re.escape(host)}(?![\w-]|\.\w)", line) for host, _ in servers)
    return bool(_UNANSWERED.search(line)) and any(_contains_address(line, *server) for server in servers)


def _contains_address(line: str, host: str, port: int) -> bool:
    """Return whether the line contains the address, as Java (`host/10.1.2.3:80`), libpq or Python writes it.

    The port must agree, since services of the application's own may run on the same machine.
    """
    quoted = r"(?:localhost|127\.0\.0\.1)" if host in ("localhost", "127.0.0.1") else re.escape(host)
    written = rf"(?<![\w-]){quoted}(?:/[\d.]+)?\]?(?::|['\"](?: \([^)]*\))?, port[ =]){port}(?!\d)"
    if scheme := _DEFAULT_PORTS.get(port):
        written += rf"|{scheme}://(?:[\w.-]+\.)?{quoted}(?![\w.:-])"
    return bool(re.search(written, line))


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not _FRAME.match(line)]
    said = [line for line in lines if not _NOISE.match(line)]
    return (said or [""])[-1][:300]


def event_of(
    application: Application,
    seen: Observation,
    *,
    at: datetime,
    launched_at: datetime,
    end_request: Reason | None = None,
    errors: str = "",
    servers: Collection[Server] = (),
) -> Event | None:
    """The event to apply next, or None where the observation is not new.

    The driver's end takes precedence, since a later stop or time limit has no effect. `errors` is the end of the
    driver's standard error, used when it failed; for `servers` see `failure_reason`.
    """
    if seen.phase is Phase.ENDED:
        reason = seen.reason or failure_reason(seen.exit_code, errors, servers) if seen.exit_code else None
        return DriverEnded(at, seen.exit_code, reason)
    if seen.phase is Phase.LOST:
        lost = Reason(DRIVER_LOST, f"the cluster was lost: {seen.detail}", "run it again")
        return DriverEnded(at, None, seen.reason or lost)
    # An application that has started may finish in spite of its obstacle, such as a sidecar that has ended; a new
    # supervisor cannot see the start where the sidecar can no longer report it.
    given_up = seen.reason if seen.permanent and application.state is State.STARTING else None
    if reason := end_request or given_up or _limit_reached(application, seen, at - launched_at):
        return EndRequested(at, reason)
    if seen.phase is Phase.RUNNING and application.state is State.STARTING:
        return ContextStarted(at, seen.spark_application_id)
    if application.state is State.STARTING and not (seen.postponed or was_seen(application)):
        return ClusterSeen(at)
    return None if seen.reason == application.reason else Blocked(at, seen.reason)


def _limit_reached(application: Application, seen: Observation, age: timedelta) -> Reason | None:
    limit = application.spec.time_limit_seconds
    if limit is not None and age >= timedelta(seconds=limit):
        return Reason(TIME_LIMIT, f"its time limit of {limit:g} s is over", "raise it with --time-limit")
    if seen.executors_failed:
        return Reason(
            "executors_failed",
            f"executors kept dying ({seen.lost_executors} of them)",
            f"read penstock logs {application.id} --process executor-1; executors often need more --executor-memory",
        )
    return None
