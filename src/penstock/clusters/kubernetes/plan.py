"""The launch plan of a driver pod, and Spark's settings for it. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from penstock.clusters.backend import Launch
from penstock.clusters.kubernetes import layout, manifest
from penstock.clusters.kubernetes.target import Target
from penstock.lake.model import Lake
from penstock.model import SPARK_INTERNAL
from penstock.profiles import layers
from penstock.profiles.base import SCRATCH_MEMORY
from penstock.profiles.check import REDACTION
from penstock.profiles.s3a import CACHE_PREFIX as CACHE

_K8S = "spark.kubernetes."


def content(target: Target, launch: Launch, *, token: str, authentication: str) -> dict[str, bytes]:
    """Return the secret's content without the application's local files (`layout.local_files_content`)."""
    return {
        **{name: text.encode() for name, text in launch.private_files.items()},
        layout.PLAN: json.dumps(plan(target, launch)).encode(),
        # Spark reads YAML, which includes JSON.
        layout.TEMPLATE: json.dumps(manifest.executor_template(target, launch)).encode(),
        layout.TOKEN: token.encode(),
        layout.AUTHENTICATION: authentication.encode(),
    }


def plan(target: Target, launch: Launch) -> dict[str, Any]:
    return {
        "application_id": launch.application_id,
        "size": asdict(launch.spec.size),
        "settings": settings(target, launch),
        "submit": submit_options(launch),
        "arguments": list(launch.spec.arguments),
        "authorities": launch.authorities,
        "lake": _lake_of_pods(launch),
    }


def settings(target: Target, launch: Launch) -> dict[str, str]:
    """Return the launch's settings, overridden by those that make the pods one cluster.

    The driver's container adds those that only the pod knows: its address and that of the API server.
    """
    size = launch.spec.size
    # Spark adds the heap and the off-heap memory itself.
    extra = size.executor_bytes - size.executor.memory_bytes - layers.off_heap_bytes(launch.settings)
    plugins = ["io.penstock.cluster.observe.ObserverPlugin", "org.apache.spark.penstock.cluster.PagesPlugin"]
    scratch = {}
    if size.scratch_memory_bytes:
        plugins.append("io.penstock.cluster.ScratchPlugin")
        scratch = {
            SCRATCH_MEMORY: f"{size.scratch_memory_bytes}b",
            "spark.penstock.scratch.directory": str(layout.SCRATCH_MEMORY),
        }
    return {
        "spark.kubernetes.allocation.batch.size": "50",
        **launch.settings,
        "spark.submit.deployMode": "client",
        "spark.app.name": launch.spec.name,
        "spark.driver.port": str(layout.DRIVER_PORT),
        "spark.driver.blockManager.port": str(layout.BLOCKS_PORT),
        "spark.blockManager.port": str(layout.BLOCKS_PORT),
        "spark.driver.cores": str(size.driver.cores),
        "spark.driver.memory": f"{size.driver.memory_bytes >> 10}k",
        "spark.executor.cores": str(size.executor.cores),
        "spark.executor.memory": f"{size.executor.memory_bytes >> 20}m",
        "spark.executor.memoryOverhead": f"{(extra + size.scratch_memory_of_executor) >> 20}m",
        **_executors(launch),
        "spark.penstock.directory": str(layout.CLUSTER),
        "spark.penstock.executors": str(size.executors),
        "spark.plugins": ",".join(filter(None, [*plugins, launch.settings.get("spark.plugins", "")])),
        **scratch,
        **_page_cache(target),
        "spark.local.dir": str(layout.SCRATCH),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (layout.ARTIFACTS / "events").as_uri(),
        # Set in any case: otherwise a `-D` in the program's Java options would decide.
        "spark.redaction.regex": REDACTION,
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": str(layout.KEYS / layout.AUTHENTICATION),
        f"{_K8S}namespace": target.namespace,
        f"{_K8S}container.image": target.image,
        **({f"{_K8S}container.image.pullPolicy": target.pull_policy} if target.pull_policy else {}),
        **({f"{_K8S}container.image.pullSecrets": ",".join(target.pull_secrets)} if target.pull_secrets else {}),
        f"{_K8S}driver.pod.name": layout.object_name(launch.application_id),
        f"{_K8S}executor.podTemplateFile": str(layout.LAUNCH / layout.TEMPLATE),
        f"{_K8S}executor.podTemplateContainerName": layout.EXECUTOR,
        f"{_K8S}executor.useDriverPodIP": "true",
        f"{_K8S}executor.request.cores": manifest.milli(size.executor.cores * target.cpu_request),
        f"{_K8S}executor.limit.cores": str(size.executor.cores),
        **_executor_account(target),
    }


def submit_options(launch: Launch) -> list[str]:
    """Return the options of `spark-submit` and the application, without its arguments."""
    spec = launch.spec
    where = dict(zip(layout.local_paths(launch), layout.local_keys(launch).values(), strict=True))

    def as_uri(path: str) -> str:
        if own := layout.path_in_image(path):
            return f"{layout.JARS}{own}"
        return (layout.LAUNCH / where[path]).as_uri() if path in where else path

    options = ["--class", spec.main_class] if spec.main_class else []
    for option, paths in (("--jars", spec.jars), ("--py-files", spec.python_files), ("--files", spec.files)):
        if paths:
            options += [option, ",".join(map(as_uri, paths))]
    application = spec.application if spec.application == SPARK_INTERNAL else as_uri(spec.application)
    return [*options, application]


def _executors(launch: Launch) -> dict[str, str]:
    """Return the number of executors: fixed, or with dynamic allocation the maximum."""
    number = str(launch.spec.size.executors)
    if launch.settings.get("spark.dynamicAllocation.enabled", "").lower() != "true":
        return {"spark.executor.instances": number}
    most = launch.settings.get("spark.dynamicAllocation.maxExecutors", number)
    return {
        "spark.dynamicAllocation.maxExecutors": min(most, number, key=int),
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    }


def _executor_account(target: Target) -> dict[str, str]:
    if target.executor_service_account is None:
        return {}
    return {f"{_K8S}authenticate.executor.serviceAccountName": target.executor_service_account}


def _page_cache(target: Target) -> dict[str, str]:
    found = {}
    for tier, directory in target.page_cache.items():
        found[f"{CACHE}{tier}.dir"] = str(layout.CACHE / tier)
        found[f"{CACHE}{tier}.size"] = str(directory.size_bytes)
    if found:
        found["spark.storage.replication.topologyMapper"] = "org.apache.spark.penstock.cluster.NodeTopology"
    return found


def _lake_of_pods(launch: Launch) -> dict[str, Any] | None:
    lake: Lake | None = launch.lake
    if lake is None:
        return None
    # The pods have a copy of the engine's certificate file, at another path.
    ca_file = str(layout.PRIVATE / launch.authorities) if launch.authorities else None
    return replace(lake, ca_file=ca_file).to_json()
