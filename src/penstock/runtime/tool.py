"""Short runs of a Java program: a private directory for its files, and its output read line by line."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.home import write_atomically
from penstock.processes import tail
from penstock.runtime import jvm

# The quick compiler alone and one collector thread: a short run ends before the optimising compiler pays.
_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Xmx512m",
    # After it no thread can be trusted to answer.
    "-XX:+ExitOnOutOfMemoryError",
    "--enable-native-access=ALL-UNNAMED",
)
PRIVATE = "{private}"


@dataclass(frozen=True)
class ToolRun:
    """One run of a program. `private` is the directory of its files."""

    private: Path
    _process: subprocess.Popen[str]
    _errors: Path

    def lines(self) -> Iterator[str]:
        """Yield the lines of its output as they come, and wait for its end."""
        # Not `yield from`, with which a caller that takes the first lines alone would close the pipe.
        for line in self._process.stdout or ():  # noqa: UP028
            yield line
        self._process.wait()

    @property
    def code(self) -> int:
        """The exit code, after `lines`; negative where a signal ended it."""
        return self._process.wait()

    @property
    def ending(self) -> str:
        """The exit code in words: `exit code 1`, `signal SIGKILL`."""
        return f"signal {signal.Signals(-self.code).name}" if self.code < 0 else f"exit code {self.code}"

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ended_within(self, seconds: float) -> bool:
        """Wait so long for its end, and return whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """Ask it to end, which `lines` and `code` then wait for."""
        self._process.terminate()

    def last_errors(self, lines: int = 5) -> list[str]:
        """The last lines of its error output; none where it wrote none."""
        return tail(self._errors, lines).splitlines()


@contextlib.contextmanager
def run(
    main_class: str,
    arguments: Sequence[str],
    *,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    java: Path | str | None = None,
    jars: Sequence[Path] = (),
    directory: Path | None = None,
) -> Iterator[ToolRun]:
    """Start `main_class` and end it when the caller leaves.

    `files` (name to content) are written into a private directory (0700), which is the working and temporary directory
    too; `{private}` stands for it in arguments, options and values of `environment`, which replaces this process's own
    environment where it is given. It lies at `directory`, from where whatever a killed run left is removed, or where
    the operating system chooses. `java` is the executable, by default the one that `find_java` finds, and `jars` the
    class path, by default Spark's and Penstock's jars. Secrets belong into `files`, since other processes can read
    arguments and environment. The program's standard input ends when this process does, however that ends. Raises
    `MissingRequirement` without Java or jars.
    """
    executable = str(java or jvm.find_java().executable)
    with _private(directory) as private:
        name = str(private)
        for file, content in (files or {}).items():
            write_atomically(private / file, content)
        command = [
            *_FLAGS,
            f"-Djava.io.tmpdir={PRIVATE}",
            *options,
            *("-cp", os.pathsep.join(map(str, jars or jvm.class_path()))),
            main_class,
            *arguments,
        ]
        variables = os.environ if environment is None else environment
        errors = private / "stderr"
        with (
            errors.open("wb") as log,
            subprocess.Popen(
                [executable, *(word.replace(PRIVATE, name) for word in command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="replace",
                env={key: value.replace(PRIVATE, name) for key, value in variables.items()},
                cwd=private,
            ) as process,
        ):
            try:
                yield ToolRun(private, process, errors)
            finally:
                # The caller has read all, has stopped reading, or was interrupted.
                process.terminate()


@contextlib.contextmanager
def _private(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="penstock-tool-") as name:
            yield Path(name)
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, mode=0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
