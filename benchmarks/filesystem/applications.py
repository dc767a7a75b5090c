"""The applications of both comparisons: what each measured and spent, kept as a line of raw samples."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.lab.environment import Environment, require_finished
from penstock.model import ApplicationSpec


def run_application(bench: Environment, arm: str, spec: ApplicationSpec, output: Path) -> dict[str, Any]:
    """Run the application and return the JSON object it wrote to `output`, with its core-seconds and requests.

    The core-seconds are those of driver and executors, their start included. Raises `ClusterError` where it fails.
    """
    ended = bench.run(spec, lambda *_: None)
    require_finished(bench.engine, ended, f"The application of {arm}")
    summary = ended.summary or {}
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return {**found, "core_seconds": summary["cpu_seconds"], "requests": summary["s3_requests"]}


@contextmanager
def raw_samples(file: Path) -> Iterator[Callable[..., None]]:
    """A function that appends its keywords to the file, as a line with the time of now."""
    with file.open("a", encoding="utf-8") as raw:

        def keep(**sample: Any) -> None:
            raw.write(json.dumps({**sample, "at": time.time()}) + "\n")
            raw.flush()

        yield keep
