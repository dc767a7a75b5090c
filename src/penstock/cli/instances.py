"""`penstock instance …` and `penstock queue`: who shares the machine, by which part, and who waits for what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Optional
from urllib.parse import quote

import typer

from penstock.cli import options
from penstock.cli.console import size
from penstock.cli.server import server
from penstock.engine.engine import Engine
from penstock.engine.policy.fairness import Instance, Quota
from penstock.engine.webhooks import shown_secret
from penstock.errors import InvalidInput, NotFound
from penstock.home import Home

app = typer.Typer(no_args_is_help=True, help="Instances: shares of the machine, with weights and quotas.")

Name = Annotated[str, typer.Argument(help="The instance.")]
Bound = Optional[str]  # noqa: UP045  Typer reads it at run time, also on Python 3.10
NO_BOUND = "none"


@app.command("list")
def listing(as_json: options.Json = False) -> None:
    """Show the instances: weight, what each may have at once, and has."""
    found = _remote_instances() if server() else _local_instances()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "weight", "running", "waiting", "cores", "memory", box=None, header_style="bold")
    for one in found:
        quota, used = one["quota"], one["used"]
        cells = [_of(used[part], quota[part]) for part in ("running", "waiting", "cores")]
        table.add_row(one["name"], f"{one['weight']:g}", *cells, _of_bytes(used["memory_bytes"], quota["memory_bytes"]))
    Console().print(table)


@app.command("set")
def put(
    name: Name,
    *,
    weight: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Its share against the others' where all want more; 1 for a new instance."),
    ] = None,
    cores: Annotated[Bound, typer.Option(help="The most cores at once, drivers included; “none” for no bound.")] = None,
    memory: Annotated[
        Bound, typer.Option(help="The most memory at once, overheads included: 64g; “none” for no bound.")
    ] = None,
    running: Annotated[Bound, typer.Option(help="The most clusters at once; “none” for no bound.")] = None,
    waiting: Annotated[
        Bound, typer.Option(help="The most applications in its queue; more are refused. “none” for no bound.")
    ] = None,
) -> None:
    """Make an instance, or change one: its weight and quotas that are not named stay. What runs goes on."""
    named: dict[str, int | None] = {}
    for part, text in {"cores": cores, "running": running, "waiting": waiting}.items():
        if text is not None:
            named[part] = None if text == NO_BOUND else _whole(text, f"--{part}")
    if memory is not None:
        named["memory_bytes"] = None if memory == NO_BOUND else options.memory(memory, "--memory")

    def changed(found: Instance) -> Instance:
        return replace(found, weight=found.weight if weight is None else weight, quota=replace(found.quota, **named))

    if server():
        found = next((one for one in _remote_instances() if one["name"] == name), None)
        before = Instance(name, found["weight"], Quota(**found["quota"])) if found else Instance(name)
        kept = changed(before)
        body = {"weight": kept.weight, "quota": asdict(kept.quota)}
        _call("PUT", f"/v1/instances/{quote(name, safe='')}", body)
    else:
        engine = _engine()
        try:
            kept = engine.change_instance(name, changed)
        except NotFound:
            kept = engine.put_instance(changed(Instance(name)))
    typer.echo(f"{name} has weight {kept.weight:g}, {_bounds(kept.quota)}")


@app.command()
def remove(name: Name) -> None:
    """Remove an instance of which nothing runs or waits; its applications stay listed."""
    if server():
        _call("DELETE", f"/v1/instances/{quote(name, safe='')}")
    else:
        _engine().delete_instance(name)
    typer.echo(f"{name} is removed")


@app.command("webhook-key")
def webhook_key(name: Name) -> None:
    """Show the secret that signs an instance's webhooks: receivers check by it who has sent them."""
    if server():
        typer.echo(_call("GET", f"/v1/instances/{quote(name, safe='')}/webhook-key")["key"])
    else:
        home = Home.default()
        typer.echo(shown_secret(home, Engine(home).instance(name).name))


def queue(
    instance: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only of this instance."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show who waits, in the order in which they would start, and why."""
    if server():
        path = f"/v1/instances/{quote(instance, safe='')}/queue" if instance else "/v1/queue"
        found: Sequence[Mapping[str, Any]] = _call("GET", path)["items"]
    else:
        found = [asdict(place) for place in _engine().queue(instance)]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "id", "instance", "why it waits", box=None, header_style="bold")
    for place in found:
        reason = place["reason"]["message"] if place["reason"] else "it starts now"
        table.add_row(str(place["position"]), place["id"], place["instance"], Text(reason))
    Console().print(table if found else "Nobody waits")


def _whole(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidInput(f"{option} {text} is not understood", why="it should be a whole number", fix=f"{option} 4")
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
    return [{**one.to_json(), "used": engine.use(one.name).to_json()} for one in engine.instances()]


def _remote_instances() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _call("GET", "/v1/instances")["items"]
    return found


def _of(has: int, most: int | None) -> str:
    return str(has) if most is None else f"{has} of {most}"


def _of_bytes(has: int, most: int | None) -> str:
    return size(has) if most is None else f"{size(has)} of {size(most)}"


def _engine() -> Engine:
    return Engine(Home.default())


def _call(method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    from penstock.client.client import Client

    return Client(str(server())).call(method, path, body)
