#!/usr/bin/env python3
"""Run a test many times while other processes keep the processors busy, and count its failures.

    repeat_test.py --times 50 --busy 2 tests/system/test_commits.py::test_name -k word

Each run is a separate pytest with a seed of its own. The output of a failed run is kept in a file, whose path is
printed. The exit code is 1 if any run failed.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep `processes` processes busy while the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--busy", type=int, default=2, metavar="PROCESSES")
    chosen, pytest_arguments = parser.parse_known_args()
    if not pytest_arguments:
        parser.error("name a test, such as tests/system/test_commits.py; all of pytest's arguments are accepted")
    kept = Path(tempfile.mkdtemp(prefix="repeated-"))
    failed, seconds = [], []
    with busy(chosen.busy):
        for number in range(1, chosen.times + 1):
            began = time.monotonic()
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--randomly-seed={number}"]
            ran = subprocess.run([*command, *pytest_arguments], check=False, capture_output=True, text=True)
            seconds.append(time.monotonic() - began)
            if ran.returncode:
                output = kept / f"{number}.txt"
                output.write_text(ran.stdout + ran.stderr, encoding="utf-8")
                failed.append(output)
            word = f"failed: {failed[-1]}" if ran.returncode else "passed"
            print(f"{number}/{chosen.times}  {seconds[-1]:.1f} s  {word}", flush=True)
    print(
        f"{chosen.times - len(failed)} passed, {len(failed)} failed; {min(seconds):.1f} to {max(seconds):.1f} s a run"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
