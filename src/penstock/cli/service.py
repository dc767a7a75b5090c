"""`penstock serve|token|instance|queue|records`: REST API and console, tokens, instances (queues), records."""

from __future__ import annotations

import contextlib
import enum
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional
from urllib.parse import quote

import typer

from penstock.catalog.secrets import KEY_FILE_VARIABLE
from penstock.cli import options
from penstock.cli.options import server
from penstock.cli.output import moment, plain_console, size
from penstock.engine.engine import Engine
from penstock.engine.engines.registry import SPARK, require_choice
from penstock.engine.policy.scheduling import Instance, Quota
from penstock.engine.repository.applications import now
from penstock.engine.repository.retention import Retention
from penstock.engine.webhooks import shown_secret
from penstock.errors import InvalidInput, NotFound
from penstock.home import Home
from penstock.service.listening import PORT, Listening

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.tokens import TokenStore


Events = Annotated[str, typer.Option(help="Retention of an application's events after its end.")]
Deliveries = Annotated[str, typer.Option(help="Retention of an application's webhook deliveries after its end.")]
Audit = Annotated[str, typer.Option(help="Retention of the audit log; at least 30d.")]

EVENTS, DELIVERIES, AUDIT = (f"{kept.days}d" for kept in (Retention.events, Retention.deliveries, Retention.audit))


def retention(events: str, deliveries: str, audit: str) -> Retention:
    """Retention periods from the options. Raises `InvalidInput` for texts that are not times."""
    return Retention(
        events=_time(events, "--keep-events"),
        deliveries=_time(deliveries, "--keep-deliveries"),
        audit=_time(audit, "--keep-audit"),
    )


def _time(text: str, option: str) -> timedelta:
    return timedelta(seconds=options.seconds(text, option) or 0.0)


PemFile = Optional[Path]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


class LogLevel(str, enum.Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; addresses other than loopback require TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port.", min=1, max=65535)] = PORT,
    spark_ui_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="TCP port of Spark's own pages.", show_default="the port after --port", min=1, max=65535),
    ] = None,
    spark_ui_url: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="URL", help="URL by which browsers reach that port through a proxy."),
    ] = None,
    tls_cert: Annotated[PemFile, typer.Option(metavar="FILE", help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[PemFile, typer.Option(metavar="FILE", help="Private key of the certificate (PEM).")] = None,
    keep_events: Events = EVENTS,
    keep_deliveries: Deliveries = DELIVERIES,
    keep_audit: Audit = AUDIT,
    log_level: Annotated[
        LogLevel, typer.Option(help="Level of the log on standard error, in JSON lines.")
    ] = LogLevel.INFO,
) -> None:
    """Serve the REST API and the console until interrupted. Applications continue without the service.

    Every call needs a token (penstock token create). On a loopback address the first start creates an administrator's
    token in a file that only you can read; commands of the same state directory find it there.

    Spark's own pages can run users' code. They have a separate port, so that they cannot read the console's token.
    """
    from penstock.lab.api import LabReports
    from penstock.service.server import serve as run

    home = Home.default()
    run(
        home,
        Listening(host, port, tls_cert, tls_key),
        log_level=log_level.value,
        spark_ui_port=spark_ui_port,
        spark_ui_url=spark_ui_url,
        retention=retention(keep_events, keep_deliveries, keep_audit),
        reports=LabReports(home),
    )


token_app = typer.Typer(
    help="Access tokens of the service (penstock serve), with a scope for each instance and an expiry.",
    no_args_is_help=True,
    add_completion=False,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="Token id, from penstock token list.")]
Output = Annotated[
    Optional[Path],  # noqa: UP045  Typer reads it at run time, also on Python 3.10
    typer.Option("--output", "-o", metavar="FILE", help="Write the token to a new file that only you can read."),
]


@token_app.command()
def create(
    name: Annotated[str, typer.Argument(help="Owner's name, shown in lists and in the audit log.")],
    *,
    scope: Annotated[str, typer.Option(help="read, submit or administer; each includes the previous ones.")] = "submit",
    instance: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Limit the token to this instance; repeatable.", show_default="all"),
    ] = None,
    expires: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="Lifetime of the token, e.g. 30d.", show_default="unlimited"),
    ] = None,
    output: Output = None,
) -> None:
    """Create a token and print it. It is shown only once, since only a hash is stored."""
    from penstock.engine.tokens import Scope, grants

    seconds = options.seconds(expires, "--expires")
    try:
        wanted = Scope(scope)
    except ValueError:
        raise InvalidInput(f"There is no scope “{scope}”", fix="--scope read, submit or administer") from None
    with _handing_over(output) as hand_over:
        if client := _client():
            body = {"name": name, "scopes": [wanted.value], "instances": instance, "expires_in": seconds}
            text = client.call("POST", "/v1/tokens", body)["token"]
        else:
            ends = None if seconds is None else datetime.now(timezone.utc) + timedelta(seconds=seconds)
            _, text = _store().create(name, grants(wanted, instance), expires_at=ends)
        hand_over(text)


@token_app.command("list")
def list_tokens(as_json: options.Json = False) -> None:
    """List tokens, without their secrets."""
    client = _client()
    found: list[dict[str, Any]] = (
        client.get("/v1/tokens")["items"] if client else [token.to_json() for token in _store().list()]
    )
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "name", "may", "expires", "last used", box=None, header_style="bold")
    for token in found:
        may = ", ".join(scope if name == "*" else f"{scope} on {name}" for name, scope in token["grants"].items())
        table.add_row(
            token["id"], Text(token["name"]), Text(may), _when(token["expires_at"]), _when(token["last_used_at"])
        )
    plain_console().print(table if found else "There are no tokens; penstock token create NAME creates one")


@token_app.command()
def rotate(token_id: Id, output: Output = None) -> None:
    """Replace a token's secret and print the new one; the old secret becomes invalid at once."""
    with _handing_over(output) as hand_over:
        if client := _client():
            text = client.call("POST", f"/v1/tokens/{token_id}/rotate")["token"]
        else:
            _, text = _store().rotate(token_id)
        hand_over(text)


@token_app.command()
def revoke(token_id: Id) -> None:
    """Revoke a token."""
    if client := _client():
        client.call("DELETE", f"/v1/tokens/{token_id}")
    else:
        _store().revoke(token_id)
    typer.echo(f"{token_id} is revoked")


def _client() -> Client | None:
    if url := server():
        from penstock.client.client import Client

        return Client(url)
    return None


def _store() -> TokenStore:
    from penstock.catalog.database import Database
    from penstock.engine.tokens import TokenStore

    home = Home.default()
    home.create()
    return TokenStore(Database(home).engine())


@contextlib.contextmanager
def _handing_over(output: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield the function that prints or writes a token.

    The file is opened before the token is created or changed, since the token is shown only once. It is removed after
    an error.
    """
    if output is None:
        yield typer.echo
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise InvalidInput(
            f"{output} already exists", why="a token never replaces a file", fix="name a new file"
        ) from None
    except OSError as error:
        raise options.unwritable(output, error, fix="name a new file in a directory that you can write") from error

    def write(text: str) -> None:
        try:
            file.write(f"{text}\n".encode("ascii"))
        except OSError as error:
            raise InvalidInput(
                f"The token could not be written to {output}",
                why=error.strerror or str(error),
                fix="penstock token list shows its id; penstock token rotate ID --output FILE replaces it",
            ) from error

    try:
        # Without a buffer, whose content would be written again, and fail again, when the file is closed.
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            yield write
    except BaseException:
        output.unlink(missing_ok=True)
        raise
    typer.echo(f"Written to {output}")


def _when(text: str | None) -> str:
    return moment(datetime.fromisoformat(text) if text else None)


instances_app = typer.Typer(
    no_args_is_help=True, help="Instances: queues with weights and quotas.", add_completion=False
)

Name = Annotated[str, typer.Argument(help="Name of the instance.")]
Bound = Optional[str]  # noqa: UP045  Typer reads it at run time, also on Python 3.10
NO_BOUND = "none"


@instances_app.command("list")
def listing(as_json: options.Json = False) -> None:
    """List the instances with weights, quotas and usage."""
    found = _remote_instances() if server() else _local_instances()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.table import Table

    table = Table("name", "weight", "running", "waiting", "cores", "memory", "engine", box=None, header_style="bold")
    for one in found:
        quota, used = one["quota"], one["used"]
        cells = [format_amount(used[part], quota[part]) for part in ("running", "waiting", "cores")]
        cells.append(_of_bytes(used["memory_bytes"], quota["memory_bytes"]))
        table.add_row(one["name"], f"{one['weight']:g}", *cells, one["engine"] or SPARK.name)
    plain_console().print(table)


@instances_app.command("set")
def put(
    name: Name,
    *,
    weight: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Share relative to other instances under contention.", show_default="1 for a new instance"),
    ] = None,
    cores: Annotated[
        Bound, typer.Option(help="Limit of concurrent cores, drivers included; “none” removes it.")
    ] = None,
    memory: Annotated[
        Bound, typer.Option(help="Limit of concurrent memory, overheads included, e.g. 64g; “none” removes it.")
    ] = None,
    running: Annotated[Bound, typer.Option(help="Limit of concurrent clusters; “none” removes it.")] = None,
    waiting: Annotated[
        Bound,
        typer.Option(help="Limit of waiting applications, beyond which submissions are refused; “none” removes it."),
    ] = None,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Engine of penstock sql without --engine, or auto.", show_default="spark"),
    ] = None,
) -> None:
    """Create or change an instance. Options that are not given keep their values; running applications continue."""
    named: dict[str, int | None] = {}
    for part, text in {"cores": cores, "running": running, "waiting": waiting}.items():
        if text is not None:
            named[part] = None if text == NO_BOUND else _whole(text, f"--{part}")
    if memory is not None:
        named["memory_bytes"] = None if memory == NO_BOUND else options.memory(memory, "--memory")

    chosen = None if engine is None else require_choice(engine)

    def changed(found: Instance) -> Instance:
        kept = replace(found, weight=found.weight if weight is None else weight, quota=replace(found.quota, **named))
        return kept if chosen is None else kept.with_engine(chosen)

    if server():
        found = next((one for one in _remote_instances() if one["name"] == name), None)
        before = Instance(name, found["weight"], Quota(**found["quota"])) if found else Instance(name)
        kept = changed(before)
        body = {"weight": kept.weight, "quota": asdict(kept.quota), **({} if chosen is None else {"engine": chosen})}
        _call("PUT", f"/v1/instances/{quote(name, safe='')}", body)
    else:
        queues = _engine().queues
        try:
            kept = queues.change(name, changed)
        except NotFound:
            kept = queues.put(changed(Instance(name)))
    typer.echo(f"{name} has weight {kept.weight:g}, {_bounds(kept.quota)}")


@instances_app.command()
def remove(name: Name) -> None:
    """Remove an instance without running or waiting applications, and that no valid token names.

    Its former applications stay listed.
    """
    if server():
        _call("DELETE", f"/v1/instances/{quote(name, safe='')}")
    else:
        _engine().queues.delete(name)
    typer.echo(f"{name} is removed")


@instances_app.command("webhook-key")
def webhook_key(name: Name) -> None:
    """Show the secret that signs an instance's webhooks, with which receivers verify the sender."""
    if server():
        typer.echo(_call("GET", f"/v1/instances/{quote(name, safe='')}/webhook-key")["key"])
    else:
        home = Home.default()
        typer.echo(shown_secret(home, Engine(home).queues.instance(name).name))


def queue(
    instance: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only applications of this instance."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the waiting applications in the order in which they would start, and what each waits for."""
    if server():
        path = f"/v1/instances/{quote(instance, safe='')}/queue" if instance else "/v1/queue"
        found: Sequence[Mapping[str, Any]] = _call("GET", path)["items"]
    else:
        found = [asdict(place) for place in _engine().queue(instance)]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("", "id", "instance", "waits for", box=None, header_style="bold")
    for place in found:
        reason = place["reason"]["message"] if place["reason"] else "starts now"
        table.add_row(str(place["position"]), place["id"], place["instance"], Text(reason))
    plain_console().print(table if found else "No application is waiting")


def _whole(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidInput(f"{option} {text} is not a whole number", fix=f"{option} 4")
    return int(text)


def _bounds(quota: Quota) -> str:
    memory = None if quota.memory_bytes is None else f"{size(quota.memory_bytes)} of memory"
    counts = [
        None if most is None else f"{most} {what}"
        for what, most in (("cores", quota.cores), ("running", quota.running), ("waiting", quota.waiting))
    ]
    return "at most " + ", ".join(filter(None, [memory, *counts])) if any([memory, *counts]) else "no quotas"


def _local_instances() -> list[dict[str, Any]]:
    engine = _engine()
    return [
        {**one.to_json(), "engine": one.engine, "used": engine.queues.usage_of(one.name).to_json()}
        for one in engine.queues.instances()
    ]


def _remote_instances() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _call("GET", "/v1/instances")["items"]
    return found


def format_amount(has: int, most: int | None) -> str:
    return str(has) if most is None else f"{has} of {most}"


def _of_bytes(has: int, most: int | None) -> str:
    return size(has) if most is None else f"{size(has)} of {size(most)}"


def _engine() -> Engine:
    return Engine(Home.default())


def _call(method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    from penstock.client.client import Client

    return Client(str(server())).call(method, path, body)


records_app = typer.Typer(
    no_args_is_help=True,
    help="The engine's records: applications, instances, tokens, audit log.",
    add_completion=False,
)


@records_app.command()
def backup(file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")]) -> None:
    """Back up all records to a file, as a consistent snapshot; the engine keeps running meanwhile."""
    from penstock.engine.repository import backup as snapshots

    contents = snapshots.write(Engine(Home.default()).repositories, file)
    typer.echo(f"Saved {contents.applications} applications in {file}")
    if contents.sealed:
        typer.echo(
            f"The backup contains {contents.sealed} sealed secrets: "
            f"also back up the file that {KEY_FILE_VARIABLE} names"
        )


@records_app.command()
def restore(
    file: Annotated[
        Path, typer.Argument(help="A file that penstock records backup wrote, of this release or an older one.")
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Discard the present records.")] = False,
) -> None:
    """Restore the records from a backup. Stop every service first.

    Only Penstock's own tables and functions are replaced, in one transaction; others in the database are kept.
    """
    from penstock.engine.repository import backup as snapshots

    restored = snapshots.read(Engine(Home.default()).repositories, file, replace=replace)
    contents = restored.contents
    typer.echo(f"Restored {contents.applications} applications of {contents.at}")
    typer.echo(f"replaced tables: {', '.join(restored.replaced)}")
    if contents.sealed:
        typer.echo(f"Restored {contents.sealed} sealed secrets: {KEY_FILE_VARIABLE} must name the key of that time")


@records_app.command()
def prune(
    *,
    keep_events: Events = EVENTS,
    keep_deliveries: Deliveries = DELIVERIES,
    keep_audit: Audit = AUDIT,
    as_json: options.Json = False,
) -> None:
    """Delete records beyond their retention; a service does this every hour.

    Records of running applications are not pruned. Of ended ones, record, summary and logs are kept.
    """
    pruned = Engine(Home.default()).pruner.prune(retention(keep_events, keep_deliveries, keep_audit), now())
    if as_json:
        typer.echo(json.dumps(asdict(pruned)))
        return
    typer.echo(f"removed: {pruned.events} events, {pruned.deliveries} deliveries, {pruned.audit} audit entries")
