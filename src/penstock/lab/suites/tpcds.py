"""TPC-DS: generate the data where the lake lacks it, run the queries on a dedicated cluster, check the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.clusters.base import Observation
from penstock.engine.application import Application, ApplicationSpec, ClusterSize
from penstock.engine.supervisor import OnChange
from penstock.errors import NotFound
from penstock.lab import checking, progress
from penstock.lab.bench import Bench, application_sample, last_samples, require_finished, workloads_jar
from penstock.lab.progress import Listener
from penstock.lab.records import LAKE_PREFIX, Recorder, Run
from penstock.lab.report import words
from penstock.lab.suites import queries

WORKLOAD = "tpcds"
PROFILE = "tpcds"
_MAIN = "io.penstock.workloads.tpcds"
_MIB = 1 << 20

MEANING = {"spark.sql.ansi.enabled": "false"}
"""What the queries mean, in every arm: q90 divides by zero at small scales, which the benchmark wants as null."""


@dataclass(frozen=True)
class DataSet:
    """TPC-DS data of one scale and object size; another layout is another data set, beside it."""

    scale: float
    object_size_bytes: int = 32 * _MIB

    @property
    def name(self) -> str:
        size = "" if self.object_size_bytes == 32 * _MIB else f"_{self.object_size_bytes // _MIB}m"
        return f"sf{self.scale:g}".replace(".", "p") + size

    @property
    def prefix(self) -> str:
        return f"{WORKLOAD}/{self.name}"

    @property
    def database(self) -> str:
        return f"tpcds_{self.name}"


@dataclass(frozen=True)
class Options:
    data: DataSet
    size: ClusterSize
    queries: tuple[str, ...] = queries.ALL
    iterations: int = 1
    warmup: int = 0
    validate: bool = True
    reload: bool = False
    profile: str = PROFILE
    settings: Mapping[str, str] = field(default_factory=dict)


def measure(bench: Bench, options: Options, listener: Listener, *, arm: str = "Penstock") -> Run:
    """The whole run, recorded as it goes; the records say so when it was cut short.

    Raises `ClusterError` when an application could not do its work at all. A query that failed or gave another answer
    is in the run that is returned.
    """
    data = ensure_data(bench, options, listener)
    recorder = begin(bench, options, arm, data)
    listener.step(f"Run {words.plural(len(options.queries), 'query', 'queries')} on a cluster of their own")
    answers = power_run(bench, options, recorder, listener, repetition=1)
    if options.validate:
        listener.step("Check every answer with an independent engine")
        validate(bench, options, recorder, answers, manifest=data, listener=listener)
    return conclude(bench, recorder)


def ensure_data(bench: Bench, options: Options, listener: Listener) -> bytes:
    """The manifest of the data set, after generating it where the lake or the catalog lacks it."""
    data = options.data
    listener.step(f"TPC-DS data of scale {data.scale:g}")
    manifest = None if options.reload else _manifest(bench, data)
    if manifest is not None and bench.has_tables(data.database):
        listener.note("The lake has it already.")
        return manifest
    application = bench.run(
        load_spec(bench, options), lambda application, seen: listener.now(_doing(application, seen))
    )
    require_finished(bench.engine, application, "Generating the data")
    made = _manifest(bench, data)
    if made is None:
        raise NotFound(
            f"The data was generated but {data.prefix}/_manifest.json is not in the lake",
            fix=f"look at the application's log: penstock logs {application.id}",
        )
    tables = json.loads(made)["tables"]
    rows, size = sum(table["rows"] for table in tables), sum(table["bytes"] for table in tables)
    listener.note(f"{words.count(rows)} rows, {words.size(size)}, in {words.plural(len(tables), 'table')}.")
    layouts: dict[str, list[str]] = {}
    for table in tables:
        layouts.setdefault(table["layout"], []).append(table["table"])
    for layout, names in layouts.items():
        if not layout.startswith("plain"):
            listener.note(f"{', '.join(names)}: {layout}.")
    return made


def begin(bench: Bench, options: Options, arm: str, manifest: bytes, *, experiment: str | None = None) -> Recorder:
    description = bench.describe(
        WORKLOAD,
        arm,
        size=options.size,
        scale=options.data.scale,
        profile=options.profile,
        settings={**MEANING, **options.settings},
        experiment=experiment,
        options={
            "queries": list(options.queries),
            "iterations": options.iterations,
            "warmup": options.warmup,
            "object_size_bytes": options.data.object_size_bytes,
        },
    )
    recorder = Recorder.begin(bench.home, description)
    recorder.add("dataset", manifest=json.loads(manifest))
    return recorder


def power_run(
    bench: Bench, options: Options, recorder: Recorder, listener: Listener, *, repetition: int
) -> list[dict[str, Any]]:
    """Run the queries as one application and record their samples; returns the lines of its `answers.jsonl`."""
    output = output_key(recorder, repetition)
    spec = power_spec(bench, options, f"{bench.lake.root}/{output}")
    application = bench.run(spec, _query_progress(bench, options, listener))
    recorder.add("application", **application_sample(application, "power", repetition=repetition))
    return collect(
        bench, recorder, output, repetition, lambda: require_finished(bench.engine, application, "The queries")
    )


def collect(
    bench: Bench, recorder: Recorder, output: str, repetition: int, explain: Callable[[], None]
) -> list[dict[str, Any]]:
    """Record the samples an application left in the lake; `explain` raises what is to be said where it left none."""
    try:
        samples = bench.json_lines(f"{output}/samples.jsonl")
    except NotFound:
        explain()
        raise
    for sample in samples:
        recorder.add("query", repetition=repetition, **sample)
    recorder.publish(bench.store)
    return bench.json_lines(f"{output}/answers.jsonl")


def validate(
    bench: Bench,
    options: Options,
    recorder: Recorder,
    answers: list[dict[str, Any]],
    *,
    manifest: bytes,
    listener: Listener,
) -> None:
    key = checking.AnswerKey(bench.home, bench.store, f"{options.data.prefix}/", manifest)
    texts = queries.texts(workloads_jar(), options.queries)
    try:
        for sample in checking.check_all(key, answers, texts, listener.now):
            recorder.add("answer", **sample)
    finally:
        key.close()


def conclude(bench: Bench, recorder: Recorder) -> Run:
    run = recorder.run()
    failed = any(sample["status"] != "ok" for sample in run.of_kind("query"))
    different = any(sample["verdict"] != "equal" for sample in run.of_kind("answer"))
    recorder.add("end", outcome="different_answers" if different else "failed" if failed else "ok")
    recorder.publish(bench.store)
    return recorder.run()


def output_key(recorder: Recorder, repetition: int) -> str:
    return f"{LAKE_PREFIX}/{recorder.description.id}/power-{repetition}"


def load_spec(bench: Bench, options: Options) -> ApplicationSpec:
    data = options.data
    return ApplicationSpec(
        application=str(workloads_jar()),
        main_class=f"{_MAIN}.Load",
        name=f"TPC-DS load, scale {data.scale:g}",
        size=options.size,
        profile=options.profile,
        lake=bench.lake.name,
        arguments=(
            *("--scale", f"{data.scale:g}"),
            *("--location", f"{bench.lake.root}/{data.prefix}"),
            *("--database", data.database),
            *("--object-size", f"{data.object_size_bytes}b"),
        ),
        tags=("lab",),
    )


def power_spec(bench: Bench, options: Options, output: str) -> ApplicationSpec:
    return ApplicationSpec(
        application=str(workloads_jar()),
        main_class=f"{_MAIN}.PowerRun",
        name=f"TPC-DS queries, scale {options.data.scale:g}",
        size=options.size,
        profile=options.profile,
        lake=bench.lake.name,
        settings={**MEANING, **options.settings},
        arguments=power_arguments(options, output),
        tags=("lab",),
    )


def power_arguments(options: Options, output: str) -> tuple[str, ...]:
    return (
        *("--database", options.data.database),
        *("--queries", ",".join(options.queries)),
        *("--iterations", str(options.iterations)),
        *("--warmup", str(options.warmup)),
        *("--output", output),
    )


def _manifest(bench: Bench, data: DataSet) -> bytes | None:
    """The manifest, where it is of this scale and object size and its load was completed."""
    try:
        content = bench.store.get(f"{data.prefix}/_manifest.json")
    except NotFound:
        return None
    found = json.loads(content)
    same = found["scale"] == data.scale and found["object_size"] == data.object_size_bytes
    return content if same else None


def _query_progress(bench: Bench, options: Options, listener: Listener) -> OnChange:
    past = {
        sample["query"]: sample["elapsed_ms"] / 1000
        for sample in last_samples(bench.home, WORKLOAD, options.data.scale, "query")
        if sample["status"] == "ok"
    }

    def seen(application: Application, observation: Observation | None) -> None:
        at = progress.position(_doing(application, observation))
        if at is None:
            return
        name, index, total = at
        elapsed = listener.elapsed()
        order = options.queries * max(1, total // len(options.queries))
        left = progress.seconds_left(order, index - 1, elapsed, past)
        estimate = f", about {words.seconds(left)} left" if left is not None else ""
        listener.now(f"{name}, {index} of {total}{estimate}")

    return seen


def _doing(application: Application, observation: Observation | None) -> str:
    """What the observer last saw: the job description, else the state of the application."""
    progress_seen = observation.progress if observation else None
    return str((progress_seen or {}).get("description") or application.state.value)
