"""`penstock run`: a Spark application on a cluster of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock.cli import foreground, options
from penstock.cli.progress import Output, display
from penstock.cli.target import Target, target
from penstock.model import DEFAULT_INSTANCE, ApplicationSpec

Several = Optional[list[str]]  # noqa: UP045  Typer reads it at run time, also on Python 3.10


def run(
    application: Annotated[str, typer.Argument(metavar="APP", help="A Python file or a jar, here or in the lake.")],
    arguments: Annotated[Several, typer.Argument(metavar="[ARGS]...", help="Its own arguments.")] = None,
    *,
    driver_cores: options.DriverCores = None,
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
    main_class: Annotated[Optional[str], typer.Option("--class", help="Main class of a jar.")] = None,  # noqa: UP045
    name: Annotated[Optional[str], typer.Option(help="Its name; the file's if not given.")] = None,  # noqa: UP045
    conf: Annotated[Several, typer.Option(metavar="KEY=VALUE", help="A Spark setting.")] = None,
    env: Annotated[Several, typer.Option(metavar="NAME=VALUE", help="A variable for driver and executors.")] = None,
    jars: Annotated[Several, typer.Option(metavar="PATH", help="More jars for the class path.")] = None,
    py_files: Annotated[Several, typer.Option(metavar="PATH", help="Python modules (.py, .zip, .egg, .whl).")] = None,
    files: Annotated[Several, typer.Option(metavar="PATH", help="Files for SparkFiles.get.")] = None,
    tag: Annotated[Several, typer.Option(help="A word to find it by.")] = None,
    time_limit: Annotated[Optional[str], typer.Option(help="End it after this time, e.g. 2h.")] = None,  # noqa: UP045
    profile: Annotated[str, typer.Option(help="Workload profile (penstock profile list).")] = "default",
    lake: options.Lake = None,
    instance: Annotated[str, typer.Option(help="Whose share of the machine it takes.")] = DEFAULT_INSTANCE,
    priority: Annotated[int, typer.Option(help="Within its instance, from -100 to 100; the highest first.")] = 0,
    retries: Annotated[int, typer.Option(help="Attempts more where its cluster, not itself, fails.")] = 0,
    webhook: Annotated[Several, typer.Option(metavar="URL", help="Told of changes of its state by a service.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print its id and return.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON; its output to stderr.")] = False,
) -> None:
    """Run a Spark application on a cluster of its own, and end the cluster with it.

    Options come before APP; what follows it belongs to the application. Options for several values may be given several
    times. The exit code is the application's own: 128+n for signal n, 124 when its time limit is over, 130 when it was
    stopped. Ctrl-C stops it.
    """
    engine = target()
    spec = ApplicationSpec(
        application=application,
        arguments=tuple(arguments or ()),
        size=options.cluster_size(
            engine.usual_size(),
            driver_cores=driver_cores,
            driver_memory=driver_memory,
            executors=executors,
            executor_cores=executor_cores,
            executor_memory=executor_memory,
        ),
        name=name or Path(application).name,
        main_class=main_class,
        profile=profile,
        lake=lake,
        settings=options.pairs(conf, "--conf"),
        environment=options.pairs(env, "--env"),
        jars=options.paths(jars),
        files=options.paths(files),
        python_files=options.paths(py_files),
        tags=tuple(tag or ()),
        time_limit_seconds=options.seconds(time_limit, "--time-limit"),
        instance=instance,
        priority=priority,
        retries=retries,
        webhooks=tuple(webhook or ()),
    )
    submit_and_follow(engine, spec, detach=detach, as_json=as_json)


def submit_and_follow(engine: Target, spec: ApplicationSpec, *, detach: bool, as_json: bool) -> None:
    """What `run` and `rerun` have in common; ends the command with the application's exit code."""
    submitted = engine.submit(spec)
    for warning in engine.warnings(spec):
        typer.echo(f"Warning: {warning}", err=True)
    if detach:
        engine.detach(submitted.id)
        typer.echo(json.dumps(submitted.to_json()) if as_json else submitted.id)
        return
    out = sys.stderr.buffer if as_json else sys.stdout.buffer
    ended = foreground.drive(
        engine, submitted, display(quiet=as_json), Output(engine.read, out=out, err=sys.stderr.buffer)
    )
    if as_json:
        typer.echo(json.dumps(ended.to_json()))
    raise SystemExit(foreground.conclude(ended, quiet=as_json))
