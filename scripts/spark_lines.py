#!/usr/bin/env python3
"""Compile `jvm/skipping` against Spark's other lines, run suites of it on them, and leave a jar for each.

    scripts/spark_lines.py                     # every line below; installs their pyspark under build/lines
    scripts/spark_lines.py 4.2.0 --compile     # one of them, and only compile
    scripts/spark_lines.py 4.3.0 --pyspark DIR # an existing pyspark (its directory, with `jars` in it)

The jars in pyspark are the line itself, with its own compiler, so a line that Maven's registries do not hold is tested
like any other. The jar of a line that passed is `build/lines/penstock-skipping-VERSION.jar`. The exit code is 1 where a
line does not compile or a suite fails; the other lines are tried all the same.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "jvm" / "skipping"
RESOURCES = MODULE / "src" / "test" / "resources"
BUILD = ROOT / "build" / "lines"

VERSIONS = ("4.0.3", "4.2.0", "4.3.0")
"""The newest version of each line except the one that Penstock ships, which `mvn verify` tests."""

SHIMS = ("4.0", "4.3")
"""The lines in which interfaces changed; `src/lines` has a directory for each."""

TESTS = (
    "LocalSpark.scala",
    "plan/IndexedTables.scala",
    "plan/SkipFilesTest.scala",
    "join/PlannedJoins.scala",
    "join/JoinSkippingTest.scala",
)
"""Suites that depend on Spark's version.

They cover building indexes, skipping files by literals and by join keys (from reused broadcasts and from second runs),
equal answers in every mode, and what must not be filtered. The other suites test only the plug-in.
"""

MOST_SECONDS = 20 * 60
"""Timeout of one step, in seconds; each takes a minute or two."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--compile", action="store_true", help="compile only, and run no suites")
    parser.add_argument(
        "--pyspark", type=Path, metavar="DIR", help="directory of an installed pyspark of the one VERSION"
    )
    options = parser.parse_args()
    if options.pyspark and len(options.versions) != 1:
        parser.error("--pyspark requires exactly one VERSION")
    libraries = maven_jars()
    failed = [
        version
        for version in options.versions
        if not passes(version, options.pyspark or pyspark(version), libraries, compile_only=options.compile)
    ]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def passes(version: str, spark: Path, libraries: str, *, compile_only: bool) -> bool:
    started = time.monotonic()
    compiler = str(spark / "jars" / "*")
    jars = f"{compiler}:{libraries}"
    main, test = (BUILD / version / name for name in ("main", "test"))
    main_sources = [*sources(MODULE / "src" / "main"), *sources(MODULE / "src" / "lines" / shim(version))]
    tests = [MODULE / "src/test/scala/io/penstock/skipping" / name for name in TESTS]
    if not compiles(main_sources, compiler, jars, main) or not compiles(tests, compiler, f"{main}:{jars}", test):
        print(f"{version}: does not compile", file=sys.stderr)
        return False
    print(f"{version}: compiled in {time.monotonic() - started:.0f} s", flush=True)
    if not compile_only and not runs(f"{main}:{test}:{RESOURCES}:{jars}", test):
        print(f"{version}: suites fail", file=sys.stderr)
        return False
    jar = BUILD / f"penstock-skipping-{version}.jar"
    run(["jar", "--create", "--file", str(jar), "-C", str(main), "."], check=True)
    print(f"{version}: passed in {time.monotonic() - started:.0f} s: {jar.relative_to(ROOT)}", flush=True)
    return True


def compiles(paths: list[Path], compiler: str, classpath: str, out: Path) -> bool:
    """Compile from scratch with the line's own compiler, which its jars contain for the shell."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    arguments = out.with_suffix(".args")
    arguments.write_text("\n".join(map(str, paths)))
    scalac = ["java", "-Xss8m", "-XX:TieredStopAtLevel=1", "-cp", compiler, "scala.tools.nsc.Main"]
    return run([*scalac, "-nowarn", "-release", "17", "-cp", classpath, "-d", str(out), f"@{arguments}"]) == 0


def runs(classpath: str, suites_in: Path) -> bool:
    runner = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", *java_options(), "-cp", classpath]
    return run([*runner, "org.scalatest.tools.Runner", "-R", str(suites_in), "-oWDF"]) == 0


def shim(version: str) -> str:
    """The directory below `src/lines` for a Spark version."""
    return [line for line in SHIMS if numbers(version) >= numbers(line)][-1]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def sources(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.scala"))


def pyspark(version: str) -> Path:
    """Directory of the version's pyspark, which is installed if it is missing."""
    target = BUILD / version / "site"
    if not (target / "pyspark" / "jars").is_dir():
        # Renamed once it is complete, so that an interrupted installation does not count.
        partial = target.with_name("site.partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--target", str(partial), f"pyspark=={version}"], check=True)
        partial.rename(target)
    return target / "pyspark"


def maven_jars() -> str:
    """Classpath of what Spark's jars do not contain: Iceberg for the shipped line, and the libraries of tests."""
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / "tests.classpath"
    groups = "org.apache.iceberg,org.scalatest,org.scalactic,org.scalatestplus,org.scalacheck,org.scala-sbt"
    goal = ["dependency:build-classpath", f"-DincludeGroupIds={groups}", f"-Dmdep.outputFile={target}"]
    run(["mvn", "-q", "-B", "-ntp", "-f", str(ROOT / "jvm" / "pom.xml"), "-pl", "skipping", *goal], check=True)
    return target.read_text().strip()


def java_options() -> list[str]:
    """The JVM options that Spark needs outside spark-submit, from the build."""
    pom = (ROOT / "jvm" / "pom.xml").read_text()
    found = re.search("<spark.java.options>(.*?)</spark.java.options>", pom, re.DOTALL)
    if found is None:
        raise SystemExit("jvm/pom.xml has no property spark.java.options any more: update scripts/spark_lines.py")
    return found[1].split()


def run(command: list[str], *, check: bool = False) -> int:
    """Run the command; returns its exit code, or 1 after a timeout.

    With `check`, raises CalledProcessError or TimeoutExpired instead.
    """
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("SPARK_HOME", None)
    try:
        return subprocess.run(command, check=check, env=environment, cwd=BUILD, timeout=MOST_SECONDS).returncode
    except subprocess.TimeoutExpired:
        if check:
            raise
        print(f"timed out after {MOST_SECONDS} s: {command[0]} … {command[-1]}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
