"""`penstock doctor`: what of this installation works, and what to do about the rest."""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import urlsplit

import typer

from penstock.cli import options
from penstock.errors import InvalidInput
from penstock.home import Home


def doctor(
    service: Annotated[
        str, typer.Option(metavar="URL", help="Where this machine's service should answer.")
    ] = "http://127.0.0.1:8440",
    as_json: options.Json = False,
) -> None:
    """Look at Java, disk, secrets, database, lakes and the service; say what each finding means.

    Nothing is changed or started. The exit code is 1 where something does not work.
    """
    from rich.console import Console

    from penstock.cli.judgements import print_rows
    from penstock.doctor.examination import Examination
    from penstock.lake.check import Outcome

    if urlsplit(service).scheme not in ("http", "https") or not urlsplit(service).hostname:
        raise InvalidInput(f"--service {service} is no address", fix="--service http://127.0.0.1:8440")
    home = Home.default()
    with Console(stderr=True).status("Looking"):
        rows = list(Examination(home, service.rstrip("/")).rows())
    wrong = sum(row.judgement.outcome is Outcome.FAILED for row in rows)
    if as_json:
        report = {"home": str(home.root), "failed": wrong, "rows": [row.as_json() for row in rows]}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        conclusion = f"{wrong} of {len(rows)} do not work: see the failed rows." if wrong else "Everything works."
        print_rows(str(home.root), rows, conclusion, columns=("what", "found", "what follows"))
    raise typer.Exit(1 if wrong else 0)
