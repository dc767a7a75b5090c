"""`penstock token`: who may use the service."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from penstock.cli import options
from penstock.cli.console import moment
from penstock.cli.server import server
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.tokens import TokenStore

app = typer.Typer(
    help="Who may use the service (penstock serve): tokens with scopes, per instance, with an end.",
    no_args_is_help=True,
    add_completion=False,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="Of penstock token list.")]
Output = Annotated[
    Optional[Path],  # noqa: UP045  Typer reads it at run time, also on Python 3.10
    typer.Option("--output", "-o", metavar="FILE", help="Write it to a new file only you can read."),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is: lists and the audit log show it.")],
    *,
    scope: Annotated[str, typer.Option(help="read, submit or administer; each includes those before it.")] = "submit",
    instance: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Only on this instance; repeatable. [all]"),
    ] = None,
    expires: Annotated[Optional[str], typer.Option(metavar="TIME", help="After this time, e.g. 30d. [never]")] = None,  # noqa: UP045
    output: Output = None,
) -> None:
    """Make a token and print it. It is shown this once: what is kept of it proves one, and makes none."""
    from penstock.engine.tokens import Scope, grants

    seconds = options.seconds(expires, "--expires")
    try:
        wanted = Scope(scope)
    except ValueError:
        raise InvalidInput(f"There is no scope “{scope}”", fix="--scope read, submit or administer") from None
    _require_new(output)
    if client := _client():
        body = {"name": name, "scopes": [wanted.value], "instances": instance, "expires_in": seconds}
        text = client.call("POST", "/v1/tokens", body)["token"]
    else:
        ends = None if seconds is None else datetime.now(timezone.utc) + timedelta(seconds=seconds)
        _, text = _store().create(name, grants(wanted, instance), expires_at=ends)
    _hand_over(text, output)


@app.command("list")
def list_tokens(as_json: options.Json = False) -> None:
    """List tokens, without their secrets."""
    client = _client()
    found: list[dict[str, Any]] = (
        client.get("/v1/tokens")["items"] if client else [token.to_json() for token in _store().list()]
    )
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "name", "may", "expires", "last used", box=None, header_style="bold")
    for token in found:
        may = ", ".join(scope if name == "*" else f"{scope} on {name}" for name, scope in token["grants"].items())
        table.add_row(
            token["id"], Text(token["name"]), Text(may), _when(token["expires_at"]), _when(token["last_used_at"])
        )
    Console().print(table if found else "No tokens yet: penstock token create NAME")


@app.command()
def rotate(token_id: Id, output: Output = None) -> None:
    """Give a token a new secret and print it; the old one is refused from now on."""
    _require_new(output)
    if client := _client():
        text = client.call("POST", f"/v1/tokens/{token_id}/rotate")["token"]
    else:
        _, text = _store().rotate(token_id)
    _hand_over(text, output)


@app.command()
def revoke(token_id: Id) -> None:
    """Refuse a token from now on."""
    if client := _client():
        client.call("DELETE", f"/v1/tokens/{token_id}")
    else:
        _store().revoke(token_id)
    typer.echo(f"{token_id} is refused from now on")


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


def _require_new(output: Path | None) -> None:
    """Before there is a token that could not be written down."""
    if output is not None and output.exists():
        raise InvalidInput(f"{output} is there already", why="a secret replaces no file", fix="name a new file")


def _hand_over(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text)
        return
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
    typer.echo(f"Written to {output}")


def _when(text: str | None) -> str:
    return moment(datetime.fromisoformat(text) if text else None)
