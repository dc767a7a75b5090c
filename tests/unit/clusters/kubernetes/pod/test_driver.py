"""A container's main process counts and ends all processes of its child, as the local supervisor does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BURNED_SECONDS = 0.3
CHILD = """
import os, sys, time
done, keep = sys.argv[1], sys.argv[2] == "left running"
read, write = os.pipe()
if middle := os.fork():
    os.waitpid(middle, 0)
    os.close(write)
    os.read(read, 1)
else:
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        open(done, "w").write(str(os.getpid()))
        os.write(write, b"x")
        if keep: time.sleep(600)
    os._exit(0)
"""
CONTAINER = """
import json, os, sys
from pathlib import Path
from penstock.clusters.kubernetes.pod.driver import ChildProcess
child = ChildProcess(sys.argv[1:], environment=os.environ, directory=Path.cwd(), out=(), err=(), adopting=True)
print(json.dumps(child.wait()))
"""


@pytest.mark.parametrize("orphan", ["ended before the child", "left running"])
def test_the_processor_time_of_orphans_counts_and_none_outlives_the_child(tmp_path: Path, orphan: str) -> None:
    done = tmp_path / "orphan"
    child = [sys.executable, "-c", CHILD, str(done), orphan]
    ran = subprocess.run(
        [sys.executable, "-c", CONTAINER, *child], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    end = json.loads(ran.stdout)
    assert end["exit_code"] == 0
    assert end["cpu_seconds"] >= BURNED_SECONDS
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.read_text()), 0)
