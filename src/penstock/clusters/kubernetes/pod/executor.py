"""An executor's container: starts Spark's executor as its scheduler asks (`SPARK_*` variables), and brings all it says
to the driver's keeper as it says it, so that nothing is lost with the pod."""

from __future__ import annotations

import base64
import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

from penstock.clusters import jvm, trust
from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.pod.children import Child
from penstock.clusters.kubernetes.pod.driver import jvm_options
from penstock.clusters.kubernetes.pod.shipping import Shipper
from penstock.engine.application import ProcessSize
from penstock.lake.settings import AUTHORITIES_FILE
from penstock.profiles.values import size_in_bytes

_SECRET_VARIABLE = "_SPARK_AUTH_SECRET"  # noqa: S105 - a variable's name: org.apache.spark.SecurityManager
_MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_MAIN_OF_NODE = "org.apache.spark.penstock.NodeExecutor"


def main() -> None:
    told = os.environ
    driver = urlsplit(told["SPARK_DRIVER_URL"]).hostname or ""
    token = (places.KEYS / places.TOKEN).read_text(encoding="ascii")
    shipper = Shipper(driver, places.KEEPER_PORT, told["SPARK_EXECUTOR_ID"], token)
    node = told.get(places.NODE_VARIABLE)
    # Before the driver hears of it: where it is not told, tasks know the executor by its address alone.
    known = node is not None and shipper.tell(f"/nodes/{told['SPARK_EXECUTOR_POD_IP']}", node.encode())
    sinks = (shipper.add, partial(os.write, sys.stdout.fileno()))
    # Before it has asked the driver for its settings an executor looks here alone, and not into the file they name.
    # Where it does read that file, it takes its content in base 64 for the secret.
    secret = base64.b64encode((places.KEYS / places.AUTHENTICATION).read_bytes()).decode("ascii")
    environment = {**told, _SECRET_VARIABLE: secret}
    child = Child(
        command(told, node if known else None), environment=environment, directory=places.SCRATCH, out=sinks, err=sinks
    )
    end = child.wait()
    shipper.close(end)
    sys.exit(end["exit_code"])


def command(told: Mapping[str, str], node: str | None) -> list[str]:
    """`node`: the name that the scheduler is to know its place by, where that is not the pod's address."""
    java = jvm.find_java()
    authorities = places.PRIVATE / AUTHORITIES_FILE
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=places.PRIVATE,
        scratch=places.SCRATCH,
        options=(
            *trust.options(java, authorities if authorities.exists() else None, cache=places.TEMPORARY),
            *jvm_options(),
            *java_options(told),
        ),
    )
    size = ProcessSize(int(told["SPARK_EXECUTOR_CORES"]), size_in_bytes(told["SPARK_EXECUTOR_MEMORY"], unit="m") or 0)
    arguments = [
        *("--driver-url", told["SPARK_DRIVER_URL"]),
        *("--executor-id", told["SPARK_EXECUTOR_ID"]),
        *("--cores", told["SPARK_EXECUTOR_CORES"]),
        *("--app-id", told["SPARK_APPLICATION_ID"]),
        *("--hostname", told["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", told["SPARK_RESOURCE_PROFILE_ID"]),
    ]
    if node is not None:
        main, arguments = _MAIN_OF_NODE, ["--node", node, *arguments]
    else:
        main, arguments = _MAIN, [*arguments, "--podName", told["SPARK_EXECUTOR_POD_NAME"]]
    return jvm.program_command(machine, size=size, main_class=main, arguments=arguments)


def java_options(told: Mapping[str, str]) -> list[str]:
    """Spark numbers them, and quotes none: each variable is one option."""
    numbered = sorted(
        (int(name.removeprefix("SPARK_JAVA_OPT_")), value)
        for name, value in told.items()
        if name.startswith("SPARK_JAVA_OPT_")
    )
    return [option for _, value in numbered for option in ([value] if value.startswith("-D") else shlex.split(value))]


if __name__ == "__main__":
    main()
