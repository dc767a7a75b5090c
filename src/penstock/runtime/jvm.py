"""The start of a JVM: which Java, class path, flags, class-data archive and trust store.

The choices here minimize the time to the first task; docs/design/clusters.md has the measurement behind each.
No argument ever carries a secret: the commands name the private files that do. A JVM reads a single trust store, so
the JDK's keytool merges Java's own authorities and a lake's; the result is cached until either changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import MissingRequirement
from penstock.formats import certificates
from penstock.model import ProcessSize

OLDEST_JAVA = 17

_INSTALL_JAVA = "sudo apt-get install --yes openjdk-17-jdk-headless, or name another with PENSTOCK_JAVA_HOME=/path"

# The modules that Spark 4.1.2 itself opens (org.apache.spark.launcher.JavaModuleOptions), without the incubating vector
# module: only MLlib's linear algebra uses it, and it prints a warning on the application's own stderr.
_MODULE_FLAGS = (
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
)

# jstat is never used on a throw-away JVM, and its data file costs an occasional page-cache flush. The flags that a user
# may want to change (collector, compiler, code cache) are settings, and in the profiles.
_SPEED_FLAGS = ("-XX:-UsePerfData",)

# Most-used first, since a class that is not in the archive is looked up jar by jar.
_FIRST_JARS = (
    "penstock-",
    "spark-core_",
    "scala-library-",
    "spark-catalyst_",
    "spark-sql_",
    "spark-sql-api_",
    "spark-common-utils",
    "spark-network-common_",
    "spark-unsafe_",
    "hadoop-client-api-",
    "hadoop-client-runtime-",
    "log4j-",
    "slf4j-api-",
    "netty-",
    "jackson-",
)

# Jars for other schedulers, operating systems and shells, which no cluster of this machine, or of pods, uses.
_UNUSED_JARS = re.compile(
    r"^(kubernetes-|vertx-|zjsonpatch-|spark-kubernetes_|spark-yarn_|.*-(osx|windows)-|.*-(osx|windows)\.jar$)"
)
UNUSED_IN_PODS = re.compile(r"^(spark-yarn_|.*-(osx|windows)-|.*-(osx|windows)\.jar$)")


@dataclass(frozen=True)
class Java:
    home: Path
    version: str
    """Java's own version string, e.g. `17.0.15+6-Debian-1deb12u1`; a class-data archive fits exactly one."""

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        return int(re.split(r"[.+-]", self.version)[0])


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Find Java: `$PENSTOCK_JAVA_HOME`, else `$JAVA_HOME`, else `java` in the path.

    Raises `MissingRequirement` where there is none, it does not start, or it is older than 17.
    """
    for variable in ("PENSTOCK_JAVA_HOME", "JAVA_HOME"):
        if chosen := environment.get(variable):
            return _checked(Path(chosen), named_by=variable)
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        raise MissingRequirement("Java is not installed", why="Spark runs on it", fix=_INSTALL_JAVA)
    return _checked(Path(found).resolve().parent.parent, named_by="PATH")


def _checked(home: Path, *, named_by: str) -> Java:
    # Each JDK and JRE has a `release` file with its version; starting Java for it would cost every command 50 ms.
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    match = re.search(r'^JAVA_RUNTIME_VERSION="([^"]+)"', release, re.MULTILINE)
    version = match.group(1) if match else _ask(home, named_by=named_by)
    java = Java(home, version)
    if not os.access(java.executable, os.X_OK):
        raise MissingRequirement(
            f"{home} contains no Java", why=f"{named_by} names it, but bin/java is missing", fix=_INSTALL_JAVA
        )
    if java.major < OLDEST_JAVA:
        raise MissingRequirement(
            f"Java {java.major} is too old",
            why=f"Spark 4 needs {OLDEST_JAVA} or newer; {named_by} names {home}",
            fix=_INSTALL_JAVA,
        )
    return java


def _ask(home: Path, *, named_by: str) -> str:
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingRequirement(
            f"The Java in {home} does not start", why=f"{named_by} names it; {error}", fix=_INSTALL_JAVA
        ) from error
    match = re.search(r"java\.runtime\.version = (\S+)", answer)
    return match.group(1) if match else "0"


def spark_jars() -> Path:
    """The directory of Spark's own jars, in the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingRequirement("pyspark is not installed", why="it contains Spark", fix="pip install penstock")
    return Path(spec.origin).parent / "jars"


def penstock_jars() -> Path:
    """The directory that the build fills: Penstock's jars, the S3A client, the PostgreSQL driver."""
    return Path(__file__).parent.parent / "jars"


def penstock_jar(module: str, missing: str) -> Path:
    """The jar of one of Penstock's own modules, the lab's included. Raises `MissingRequirement(missing)` without it."""
    found = sorted(penstock_jars().rglob(f"penstock-{module}*.jar"))
    if not found:
        raise MissingRequirement(missing, why=f"no penstock-{module} jar in {penstock_jars()}", fix="make setup")
    return found[-1]


def class_path(directories: Sequence[Path] = (), *, unused: re.Pattern[str] = _UNUSED_JARS) -> tuple[Path, ...]:
    """Spark's and Penstock's jars in the fixed order of every JVM; driver and executors must get the same.

    A class-data archive fits one order, so the order never depends on the file system's. Raises `MissingRequirement`
    where Penstock's own jars were not built.
    """
    own = penstock_jars()
    directories = directories or (own, spark_jars())
    found = sorted_jars((jar for directory in directories for jar in directory.glob("*.jar")), unused=unused)
    if not any(jar.name.startswith("penstock-") for jar in found):
        raise MissingRequirement(
            "Penstock's jars are not built",
            why=f"{own} has none of them",
            fix="mvn -f jvm/pom.xml package, or: make jars",
        )
    return found


def sorted_jars(jars: Iterable[Path], *, unused: re.Pattern[str] = _UNUSED_JARS) -> tuple[Path, ...]:
    """Sort jars, most-used first, then by name, without those that match `unused` and without duplicate names.

    The first of two jars with one name wins, so a jar of Penstock's replaces Spark's: the build strips the signatures
    from janino, since signed classes cannot be archived.
    """
    chosen: dict[str, Path] = {}
    for jar in jars:
        chosen.setdefault(jar.name, jar)

    def rank(jar: Path) -> tuple[int, str]:
        first = (index for index, prefix in enumerate(_FIRST_JARS) if jar.name.startswith(prefix))
        return next(first, len(_FIRST_JARS)), jar.name

    return tuple(sorted((jar for jar in chosen.values() if not unused.match(jar.name)), key=rank))


def archive(directory: Path, java: Java, jars: Sequence[Path], role: str) -> Path:
    """The path of the class-data archive of one role (`driver`, `executor`) for this Java and these jars.

    A replaced jar, even under its old name, changes the path, since the JVM would refuse the old archive.
    """
    identity = hashlib.sha256(java.version.encode())
    for jar in jars:
        status = jar.stat()
        identity.update(f"\0{jar}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return directory / "classes" / identity.hexdigest()[:16] / f"{role}.jsa"


@dataclass(frozen=True)
class Jvm:
    """The common parameters of driver and executors of one cluster.

    `private` is the directory of private files; it is last on the class path, so that a `hive-site.xml` in it is found.
    `archives` is the state directory for class-data archives; None starts without. `options` are given to every JVM.
    """

    java: Java
    jars: tuple[Path, ...]
    private: Path
    scratch: Path
    archives: Path | None = None
    options: tuple[str, ...] = ()


def driver_command(
    jvm: Jvm,
    *,
    size: ProcessSize,
    log: Path,
    properties: Path,
    application: Sequence[str],
) -> list[str]:
    """The driver's command: SparkSubmit with the properties file and `application` (options, file, arguments).

    Spark's log goes to `log`; stdout and stderr are the application's own. `spark.authenticate.secret` belongs in the
    properties file.
    """
    return [
        *_java(jvm, size, role="driver"),
        f"-Dpenstock.log={log}",
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(properties),
        *application,
    ]


def executor_command(
    jvm: Jvm,
    *,
    size: ProcessSize,
    cluster: Path,
    executor_id: int,
    properties: Path,
) -> list[str]:
    """The command of one executor, which starts together with the driver and waits for `cluster/endpoint`.

    `properties` is the driver's own properties file: an executor needs its network settings and secret before it can
    fetch the rest from the driver. The executor logs to stderr, as does user code, and ends with exit code 3 when no
    driver appears.
    """
    return [
        *_java(jvm, size, role="executor"),
        "io.penstock.cluster.ExecutorLauncher",
        "--directory",
        str(cluster),
        "--executor-id",
        str(executor_id),
        "--cores",
        str(size.cores),
        "--properties-file",
        str(properties),
    ]


def program_command(jvm: Jvm, *, size: ProcessSize, main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command of a program without Spark, in a JVM like an executor's, so that its cost is comparable."""
    return [*_java(jvm, size, role="executor"), main_class, *arguments]


def training(command: Sequence[str], target: Path) -> list[str]:
    """Extend `command` (of a driver or executor without archives) to write a class-data archive on exit.

    That takes some 10 s after the application's end. The flags suppress the list of unarchivable classes on stdout.
    """
    return [command[0], f"-XX:ArchiveClassesAtExit={target}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", *command[1:]]


def _java(jvm: Jvm, size: ProcessSize, *, role: str) -> list[str]:
    chosen = [
        f"-Xmx{size.memory_bytes // 1024}k",
        # The cluster was promised these cores only; without the flag a JVM sizes its pools for the whole machine.
        f"-XX:ActiveProcessorCount={size.cores}",
        *_SPEED_FLAGS,
        *_MODULE_FLAGS,
        *jvm.options,
        f"-Djava.io.tmpdir={jvm.scratch}",
        f"-Dlog4j2.configurationFile=classpath:log4j2-{role}.properties",
    ]
    if jvm.archives is not None:
        made = archive(jvm.archives, jvm.java, jvm.jars, role)
        if made.exists():
            chosen += [f"-XX:SharedArchiveFile={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    path = os.pathsep.join(str(entry) for entry in (*jvm.jars, jvm.private))
    return [str(jvm.java.executable), *chosen, "-cp", path]


# The password of the JDK's own trust store; it protects no secret, since certificates are public.
_PASSWORD = "changeit"  # noqa: S105


def trust_options(java: Java, authorities: Path | None, *, cache: Path) -> list[str]:
    """The options of a JVM that also trusts the certificates in that file; none without a file.

    The trust store is created in `cache` on first use, in a second or two. Raises `InvalidInput` for a file without
    certificates, and `MissingRequirement` where keytool fails.
    """
    if authorities is None:
        return []
    store = _store(java, certificates(str(authorities)), cache)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _store(java: Java, trusted: list[str], cache: Path) -> Path:
    public = java.home / "lib" / "security" / "cacerts"
    try:
        known = public.stat()
    except OSError as error:
        raise _failed(java, f"{public}: {error.strerror}") from error
    content = "".join([str(public), str(known.st_mtime_ns), str(known.st_size), *trusted])
    target = cache / f"trust-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jks"
    if not target.exists():
        # Concurrent processes build the same store, and the later one replaces the earlier.
        with tempfile.TemporaryDirectory(prefix=".trust-", dir=cache) as name:
            made = Path(name) / "store"
            # JKS leaves certificates readable without a password, whatever the format of the JDK's own store.
            _keytool(
                java,
                *("-importkeystore", "-srckeystore", str(public), "-srcstorepass", _PASSWORD),
                *("-destkeystore", str(made), "-deststoretype", "JKS", "-deststorepass", _PASSWORD),
            )
            for number, certificate in enumerate(trusted):
                one = Path(name) / "certificate.pem"
                one.write_text(certificate, encoding="ascii")
                _keytool(
                    java,
                    *("-importcert", "-file", str(one), "-alias", f"lake-{number}"),
                    *("-keystore", str(made), "-storepass", _PASSWORD),
                )
            made.replace(target)
    return target


def _keytool(java: Java, *arguments: str) -> None:
    done = subprocess.run(
        [str(java.home / "bin" / "keytool"), *arguments, "-noprompt", "-J-Xshare:auto"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    if done.returncode != 0:
        raise _failed(java, " ".join((done.stdout + done.stderr).split())[-300:])


def _failed(java: Java, why: str) -> MissingRequirement:
    return MissingRequirement(
        "The trust store with the lake's authority cannot be built",
        why=why,
        fix=f"repair {java.home}, or use another Java: PENSTOCK_JAVA_HOME=/path",
    )
