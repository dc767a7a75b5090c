"""TPC-DS through Penstock against plain Spark with S3A's defaults: same store, catalog, cores and memory, in turns."""

from __future__ import annotations

from typing import Any

from penstock.errors import ClusterError
from penstock.lab import matrix
from penstock.lab.bench import Bench, workloads_jar
from penstock.lab.plain import Ended, PlainSpark, separate_executors
from penstock.lab.progress import Listener
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.lab.report import words
from penstock.lab.suites import tpcds

PENSTOCK = "Penstock"
PLAIN = "plain Spark"
_MAIN = "io.penstock.workloads.tpcds.PowerRun"


def measure(bench: Bench, options: tpcds.Options, *, repetitions: int, listener: Listener) -> tuple[Run, Run]:
    """(plain, Penstock). The answers of both arms are checked, those of the first repetition of each."""
    manifest = tpcds.ensure_data(bench, options, listener)
    experiment = new_run_id(tpcds.WORKLOAD, "experiment")
    recorders = {arm: tpcds.begin(bench, options, arm, manifest, experiment=experiment) for arm in (PLAIN, PENSTOCK)}
    checked: set[str] = set()
    with PlainSpark.prepared(bench.home, bench.lake) as plain:
        for repetition, arm in matrix.turns((PLAIN, PENSTOCK), repetitions):
            listener.step(f"{arm}, round {repetition} of {repetitions}")
            if arm == PENSTOCK:
                answers = tpcds.power_run(bench, options, recorders[arm], listener, repetition=repetition)
            else:
                answers = _plain_run(bench, plain, options, recorders[arm], listener=listener, repetition=repetition)
            if options.validate and arm not in checked:
                checked.add(arm)
                listener.step(f"Check the answers of {arm}")
                tpcds.validate(bench, options, recorders[arm], answers, manifest=manifest, listener=listener)
    return tpcds.conclude(bench, recorders[PLAIN]), tpcds.conclude(bench, recorders[PENSTOCK])


def _plain_run(
    bench: Bench,
    plain: PlainSpark,
    options: tpcds.Options,
    recorder: Recorder,
    *,
    listener: Listener,
    repetition: int,
) -> list[dict[str, Any]]:
    output = tpcds.output_key(recorder, repetition)
    ended = plain.submit(
        master=separate_executors(options.size),
        size=options.size,
        jar=workloads_jar(),
        main_class=_MAIN,
        arguments=tpcds.power_arguments(options, f"{bench.lake.root}/{output}"),
        settings=tpcds.MEANING,
        seen=lambda seconds: listener.now(f"{words.seconds(seconds)} so far"),
    )
    recorder.add(
        "application",
        role="power",
        repetition=repetition,
        submitted_ms=ended.submitted_ms,
        elapsed_ms=ended.ended_ms - ended.submitted_ms,
        core_seconds=ended.core_seconds,
        peak_memory_bytes=ended.peak_memory_bytes,
    )
    return tpcds.collect(bench, recorder, output, repetition, lambda: _explain(ended))


def _explain(ended: Ended) -> None:
    raise ClusterError(f"spark-submit ended with exit code {ended.exit_code} and left no samples", why=ended.output)
